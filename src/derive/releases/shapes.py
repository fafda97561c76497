# SPDX-License-Identifier: Apache-2.0
"""A recipe's part of a release: its shapes, each with the platform that it runs on and what it waits for.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from derive.canonical import Digest, Json, digest_document, sha256
from derive.derivations.model import Platform
from derive.errors import InputErrors, Problem, expected_got
from derive.recipes.load import FOLDER, Recipe, read_recipe, recipe_names
from derive.recipes.resolve import resolve
from derive.recipes.resolved import Resolved
from derive.releases.document import ReleasedImage, ReleasedShape, platform
from derive.render.bundle import shape_document
from derive.render.judgement import Judgement, judge
from derive.render.manifest import model_document

_CONTENT = ("derivations/", "fabric/", "images/", "kernels/", "patches/", "recipes/", "render/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A shape of a recipe, and what stands against deploying it."""

    resolved: Resolved
    judgement: Judgement

    @property
    def platform(self) -> Platform:
        """The platform of the image that it runs."""
        return platform(self.resolved.platform)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A recipe with all its shapes, by name; ``digests`` are those of all recipes of the project."""

    recipe: Recipe
    shapes: Mapping[str, Judged]
    digests: Mapping[str, Digest]

    def model(self) -> Mapping[str, Json] | None:
        """Return the pin of the default shape's model as the shape bundle writes it, None where nothing is served."""
        found = model_document(self.shapes[self.recipe.default_shape].resolved.model)
        return found if isinstance(found, Mapping) else None


def read_served(files: Mapping[str, bytes], name: str) -> Served:
    """Read the recipe of a release from a project's files by their path.

    Raises:
        InputErrors: everything that is wrong with any recipe of the project, and with what the shapes of this one need.
    """
    problems: list[Problem] = []
    recipes: dict[str, Recipe] = {}
    for one in sorted({*recipe_names(files), name}):
        recipe, found = read_recipe(files, one)
        problems += found
        if recipe is not None:
            recipes[one] = recipe
    if name not in recipes:
        raise InputErrors(problems)
    shapes: dict[str, Judged] = {}
    for shape in recipes[name].shapes:
        resolved = resolve(recipes[name], shape)
        judgement, found = judge(resolved, files, recipes[name].fabric)
        problems += found
        shapes[shape] = Judged(resolved=resolved, judgement=judgement)
    if problems:
        raise InputErrors(problems)
    return Served(
        recipe=recipes[name], shapes=shapes, digests={one: recipe.digest() for one, recipe in recipes.items()}
    )


def require_platforms(
    served: Served, chosen: Iterable[Platform], declared: Iterable[Platform], *, partly: bool = False
) -> None:
    """Refuse platforms that the image is not for, and a choice without what a shape runs on; raises InputErrors.

    ``partly``: shapes that run on others are left out.
    """
    wanted, known = set(chosen), sorted(declared)
    file = f"images/{served.recipe.image}.toml"
    problems = [
        Problem(
            where=f"{file}: platforms", message="the image is not for it", detail=expected_got(" or ".join(known), one)
        )
        for one in sorted(wanted - set(known))
    ]
    for name, judged in served.shapes.items():
        if judged.platform not in wanted and not partly:
            place = f"{served.recipe.file}: shapes.{name}"
            message = f"this shape runs on {judged.platform}, which the release would not have"
            hint = f"add --platform {judged.platform}" if judged.platform in known else f"add it to {file}: platforms"
            problems.append(Problem(where=place, message=message, hint=hint))
    if problems:
        raise InputErrors(problems)


def released_shapes(
    served: Served, images: Mapping[Platform, ReleasedImage], files: Mapping[str, bytes]
) -> dict[str, ReleasedShape]:
    """Return what a release says of each shape of these images, with its bundle for no site."""
    found: dict[str, ReleasedShape] = {}
    for name, judged in served.shapes.items():
        if judged.platform not in images:
            continue
        document = shape_document(judged.resolved, images[judged.platform].digest, served.recipe.fabric, files)
        missing = judged.judgement.missing
        needs = sorted({one.capability for one in missing if one.capability is not None})
        found[name] = ReleasedShape(
            bundle=digest_document(document), deployable=judged.judgement.deployable, needs=tuple(needs)
        )
    return found


def lock_hashes(files: Mapping[str, bytes]) -> dict[str, Digest]:
    """Return the digest of each file below ``lock/``."""
    return {path: sha256(data) for path, data in sorted(files.items()) if path.startswith("lock/")}


def content_hashes(files: Mapping[str, bytes]) -> dict[str, Digest]:
    """Return the digest of each other file that decides a byte; recipes count as parsed, and are not among them."""
    return {
        path: sha256(data) for path, data in sorted(files.items()) if path.startswith(_CONTENT) and not is_recipe(path)
    }


def recipe_hashes(files: Mapping[str, bytes]) -> dict[str, Digest]:
    """Return the digest of each recipe's text, which only a record holds: it has what only governs promotion."""
    return {path: sha256(data) for path, data in sorted(files.items()) if is_recipe(path)}


def is_recipe(path: str) -> bool:
    """Say whether a file of a project is a recipe."""
    return path.startswith(FOLDER) and path.endswith(".toml") and path.count("/") == 1
