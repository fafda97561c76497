# SPDX-License-Identifier: Apache-2.0
"""Reading ``recipes/NAME.toml``: every shape of it is resolved, so that one run says all that is wrong.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from derive.canonical import Digest, Json, digest_document
from derive.errors import InputErrors, Problem
from derive.fabric.transports import Fabric
from derive.recipes import check
from derive.recipes.declarations import SHARED
from derive.recipes.merge import Tables
from derive.recipes.pins import read_pin
from derive.recipes.resolved import ModelPin
from derive.toml import parse_toml
from derive.words import near

FOLDER = "recipes/"

Pins = Mapping[tuple[str, str], ModelPin]
"""Pins of checkpoints by lock set and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One recipe as it was read: what its shapes share, and what each has of its own; nothing merged.

    ``pins`` are those of the checkpoints that it names, ``fabric`` its transports and tuning profiles.
    """

    name: str
    file: str
    image: str
    default_shape: str
    shared: Tables
    shapes: Mapping[str, Tables]
    pins: Pins
    fabric: Fabric

    def document(self) -> dict[str, Json]:
        """Return what the recipe says as a canonical document: as parsed, without what only governs promotion."""
        return {
            "derive": "recipe/1",
            "image": self.image,
            "default-shape": self.default_shape,
            "shared": _without_promotion(self.shared),
            "shapes": {name: _without_promotion(own) for name, own in self.shapes.items()},
        }

    def digest(self) -> Digest:
        """Return the digest of that document: layout, comments and the order of keys are not in it."""
        return digest_document(self.document())


def recipe_names(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the names of all recipes, sorted."""
    paths = (path.removeprefix(FOLDER) for path in files if path.startswith(FOLDER) and path.endswith(".toml"))
    return tuple(sorted(path.removesuffix(".toml") for path in paths if "/" not in path))


def load_recipe(files: Mapping[str, bytes], name: str, pins: Pins | None = None) -> Recipe:
    """Read a recipe from a project's files by their path; ``pins`` are read from its locks unless given.

    Raises:
        InputErrors: with everything that is wrong with it, in any of its shapes.
    """
    recipe, problems = read_recipe(files, name, pins)
    if recipe is None:
        raise InputErrors(problems)
    return recipe


def read_recipe(files: Mapping[str, bytes], name: str, pins: Pins | None = None) -> tuple[Recipe | None, list[Problem]]:
    """Read a recipe, or say everything that is wrong with it and with what it leans on, sorted by place."""
    recipe, problems = _read(files, name, pins)
    return recipe, [*InputErrors(problems).problems()] if problems else []


def _read(files: Mapping[str, bytes], name: str, pins: Pins | None) -> tuple[Recipe | None, list[Problem]]:
    file = f"{FOLDER}{name}.toml"
    problems: list[Problem] = []
    fabric = _read_fabric(files, problems)
    names = recipe_names(files)
    if name not in names:
        hint = near(name, names) or (f"known: {', '.join(names)}" if names else "write one: docs/recipes.md")
        return None, [*problems, Problem(where=file, message=f"no recipe is called {name!r}", hint=hint)]
    table, found = parse_toml(files[file], file)
    problems += found
    if table is None:
        return None, problems
    faults = check.faults(table, file)
    problems += (fault.problem for fault in faults)
    sound = check.without(table, {fault.path for fault in faults})
    if fabric is None or not isinstance(sound.get("shapes"), dict):
        return None, problems
    recipe, found = _judged(_recipe(name, file, sound, fabric), files, pins)
    told = {problem.where for problem in problems}
    problems += (problem for problem in found if problem.where not in told)
    return None if problems else recipe, problems


def _recipe(name: str, file: str, table: Mapping[str, Any], fabric: Fabric) -> Recipe:
    return Recipe(
        name=name,
        file=file,
        image=table.get("image", ""),
        default_shape=table.get("default-shape", ""),
        shared={key: value for key, value in table.items() if key in SHARED},
        shapes=table["shapes"],
        pins={},
        fabric=fabric,
    )


def _read_fabric(files: Mapping[str, bytes], problems: list[Problem]) -> Fabric | None:
    from derive.fabric.catalogue import load_fabric

    try:
        return load_fabric(files)
    except InputErrors as error:
        problems += error.problems()
        return None


def _judged(recipe: Recipe, files: Mapping[str, bytes], given: Pins | None) -> tuple[Recipe, list[Problem]]:
    from derive.recipes.resolve import models, shape_problems

    pins = dict(given or {})
    problems: list[Problem] = []
    if recipe.image and f"images/{recipe.image}.toml" not in files:
        images = [path[7:-5] for path in files if path.startswith("images/") and path.endswith(".toml")]
        hint = near(recipe.image, images)
        message = f"no image is called {recipe.image!r}"
        problems.append(Problem(where=f"{recipe.file}: image", message=message, hint=hint))
    for key, where in models(recipe):
        if key not in pins:
            pin, found = read_pin(files, *key, where)
            problems += found
            if pin is not None:
                pins[key] = pin
    recipe = replace(recipe, pins=pins)
    for name in recipe.shapes:
        problems += shape_problems(recipe, name)
    return recipe, problems


def _without_promotion(tables: Tables) -> dict[str, Json]:
    return {key: value for key, value in tables.items() if key != "promotion"}
