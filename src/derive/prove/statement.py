# SPDX-License-Identifier: Apache-2.0
"""The statement: everything that a node's launch files are a function of, each by its digest.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derive.canonical import CanonicalError, Digest, Json, decode, sha256
from derive.recipes.load import Recipe
from derive.recipes.resolved import ModelPin, Resolved
from derive.render import RENDERER
from derive.render.bundle import Bundle
from derive.render.site_digest import site_digest
from derive.render.templates import TEMPLATES, path_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The pinned argument schema of an image: its file, and the derivation that gives it where the file says so."""

    file: str
    digest: Digest
    derivation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What one node's files follow from. ``launch`` is the digest over the files of all nodes of the site.

    ``locks`` is the one that pins the model: what the others pin is in the image, and so in its digest.
    """

    node: str
    rank: int
    nodes: int
    recipe: str
    recipe_digest: Digest
    shape: str
    shape_digest: Digest
    model: ModelPin | None
    image: str
    image_digest: Digest
    platform: str
    site: str
    site_file: str
    site_digest: Digest
    schema: Schema | None
    renderer: str
    templates: Mapping[str, Digest]
    locks: Mapping[str, Digest]
    launch: Digest

    def document(self) -> dict[str, Json]:
        """Return the statement as the body of a record."""
        model = self.model
        return {
            "node": self.node,
            "rank": self.rank,
            "nodes": self.nodes,
            "recipe": {"name": self.recipe, "digest": str(self.recipe_digest)},
            "shape": {"name": self.shape, "digest": str(self.shape_digest)},
            "model": None
            if model is None
            else {
                "name": model.name,
                "repository": model.repository,
                "revision": model.revision,
                "unpinned": model.unpinned,
            },
            "image": {"name": self.image, "platform": self.platform, "digest": str(self.image_digest)},
            "site": {"name": self.site, "file": self.site_file, "digest": str(self.site_digest)},
            "schema": None
            if self.schema is None
            else {
                "file": self.schema.file,
                "digest": str(self.schema.digest),
                "derivation": self.schema.derivation,
            },
            "renderer": self.renderer,
            "templates": {path: str(digest) for path, digest in self.templates.items()},
            "locks": {path: str(digest) for path, digest in self.locks.items()},
            "launch": str(self.launch),
        }


def statement(found: Bundle, node: str, recipe: Recipe, site_file: str, files: Mapping[str, bytes]) -> Statement:
    """Return the statement of one node of a bundle; ``files`` are the project's, by their path."""
    launch = next(one for one in found.launches if one.node == node)
    resolved = found.resolved
    return Statement(
        node=node,
        rank=launch.rank,
        nodes=launch.nodes,
        recipe=resolved.recipe,
        recipe_digest=recipe.digest(),
        shape=resolved.shape,
        shape_digest=found.shape,
        model=resolved.model,
        image=resolved.image,
        image_digest=found.image,
        platform=resolved.platform,
        site=found.site.name,
        site_file=site_file,
        site_digest=site_digest(found.site),
        schema=_schema(f"recipes/{resolved.image}.schema.json", files),
        renderer=RENDERER,
        templates={path_of(name): sha256(files[path_of(name)]) for name in TEMPLATES if path_of(name) in files},
        locks=_locks(resolved, files),
        launch=found.launch,
    )


def rows(made: Statement) -> list[tuple[str, str]]:
    """Return the statement as a table of two columns."""
    model = made.model
    pinned = "none" if model is None else f"{model.repository} {model.revision or 'not pinned'}"
    found = [
        ("node", f"{made.node}, rank {made.rank} of {made.nodes}"),
        ("recipe", f"{made.recipe_digest}  {made.recipe}"),
        ("shape", f"{made.shape_digest}  {made.shape}"),
        ("model", pinned),
        ("image", f"{made.image_digest}  {made.image} {made.platform}"),
        ("site", f"{made.site_digest}  {made.site}, {made.site_file}"),
    ]
    if made.schema is not None:
        derivation = made.schema.derivation
        given = "" if derivation is None else f", drv:{derivation.removeprefix('sha256:')[:12]}"
        found.append(("schema", f"{made.schema.digest}  {made.schema.file}{given}"))
    found.append(("renderer", made.renderer))
    found += [("template", f"{digest}  {path}") for path, digest in made.templates.items()]
    found += [("lock", f"{digest}  {path}") for path, digest in made.locks.items()]
    return [*found, ("launch", str(made.launch))]


def _locks(resolved: Resolved, files: Mapping[str, bytes]) -> dict[str, Digest]:
    model = resolved.document.get("model")
    path = f"lock/{model['set']}.lock.json" if isinstance(model, Mapping) else ""
    return {path: sha256(files[path])} if path in files else {}


def _schema(file: str, files: Mapping[str, bytes]) -> Schema | None:
    if file not in files:
        return None
    try:
        document = decode(files[file])
    except CanonicalError:
        document = None
    said = document.get("derivation") if isinstance(document, Mapping) else None
    derivation = said if isinstance(said, str) else None
    return Schema(file=file, digest=sha256(files[file]), derivation=derivation)
