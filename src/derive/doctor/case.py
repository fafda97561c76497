# SPDX-License-Identifier: Apache-2.0
"""What checks are asked about: the facts, read as locks, images, recipes, fabric and site as far as they can be.

Core: no IO. Imports pydantic through the declarations.

What cannot be read gives its problems once, to the check whose place it is, and is unknown to all others that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from derive.derivations.scope import load_scope
from derive.doctor.check import Unknown
from derive.doctor.model import Unreadable
from derive.errors import InputErrors, Problem
from derive.fabric.cabling import NODES
from derive.fabric.catalogue import load_fabric
from derive.fabric.examples import example_file
from derive.fabric.load import load_site_input
from derive.images.declarations import parse_image
from derive.lock.documents import render_lock
from derive.lock.read import parse_lock
from derive.lock.wishes import parse_wish
from derive.memory.load import facts_problems
from derive.recipes.load import read_recipe, recipe_names
from derive.recipes.resolve import resolve
from derive.schema.model import load_schema
from derive.schema.pin import file_of

if TYPE_CHECKING:
    from derive.doctor.model import Facts
    from derive.fabric.rule import SiteInput
    from derive.fabric.site import Cabling
    from derive.fabric.transports import Fabric
    from derive.images.declarations import ImageDecl
    from derive.lock.documents import Lock
    from derive.lock.wishes import Wish
    from derive.recipes.resolved import Resolved
    from derive.schema.model import Schema

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What decides images: problems of settings and declarations, locks, wishes and images by name.

    ``unread_locks`` are locks that cannot be read; ``laid_out_otherwise`` the sets whose lock nobody wrote so.
    """

    problems: tuple[Problem, ...]
    locks: Mapping[str, Lock]
    wishes: Mapping[str, Wish]
    images: Mapping[str, ImageDecl]
    unread_locks: tuple[Unknown, ...] = ()
    laid_out_otherwise: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """What is served: every shape that resolves; problems of recipes; recipes of which no shape can be judged."""

    shapes: tuple[Resolved, ...]
    problems: tuple[Problem, ...] = ()
    silent: tuple[Unknown, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What shapes run on: ``fabric/`` without its sites, the site in use, the example of each cabling.

    Each is None, or absent, where it cannot be read, and its problems say why; ``site`` also where there is no file.
    """

    fabric: Fabric | None
    fabric_problems: tuple[Problem, ...]
    site: SiteInput | None
    site_problems: tuple[Problem, ...]
    examples: Mapping[str, SiteInput]
    example_problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schemas:
    """The pinned argument schemas of images that serve by a program with one; what cannot be read has its problems."""

    schemas: Mapping[str, Schema]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that a check may look at."""

    facts: Facts
    content: Content
    recipes: Shapes
    places: Places
    schemas: Schemas

    @property
    def shapes(self) -> tuple[Resolved, ...]:
        """Every shape that is looked at."""
        return self.recipes.shapes

    @property
    def site_name(self) -> str:
        """What the site is called in messages."""
        return "no site's file: the examples of fabric/" if self.facts.site is None else self.facts.site.file

    def site_of(self, resolved: Resolved) -> SiteInput | None:
        """Return the site that a shape is judged at: the one in use where it is cabled so, else the example."""
        site = self.places.site
        if site is not None and site.site.cabling == resolved.cabling:
            return site
        return self.places.examples.get(resolved.cabling)


def case_of(facts: Facts) -> Case:
    """Read everything that the facts hold."""
    recipes = _recipes(facts)
    return Case(
        facts=facts,
        content=_content(facts),
        recipes=recipes,
        places=_places(facts),
        schemas=_schemas(facts, recipes.shapes),
    )


def _content(facts: Facts) -> Content:
    settings = tuple(one for one in facts.reading if one.where.startswith("pyproject.toml"))
    if facts.project is None:
        return Content(problems=settings, locks={}, wishes={}, images={})
    files = facts.project.files
    try:
        scope = load_scope(facts.project)
    except InputErrors as error:
        wrong = (*settings, *(one for one in error.problems() if one not in settings))
        read = {name: parse_lock(files[path], path)[0] for name, path in _named(files, "lock/", ".lock.json")}
        wishes = {name: parse_wish(files[path], path)[0] for name, path in _named(files, "lock/", ".toml")}
        images = {name: parse_image(files[path], path)[0] for name, path in _named(files, "images/", ".toml")}
        locks = {name: lock for name, lock in read.items() if lock is not None}
        return Content(
            problems=wrong,
            locks=locks,
            wishes={name: wish for name, wish in wishes.items() if wish is not None},
            images={name: image for name, image in images.items() if image is not None},
            unread_locks=tuple(_unread_lock(name) for name, lock in read.items() if lock is None),
            laid_out_otherwise=_otherwise(files, locks),
        )
    return Content(
        problems=settings,
        locks=scope.locks,
        wishes=scope.wishes,
        images=scope.images,
        laid_out_otherwise=_otherwise(files, scope.locks),
    )


def _named(files: Mapping[str, bytes], folder: str, suffix: str) -> Iterator[tuple[str, str]]:
    """Yield name and path of every file of a folder with a suffix; those of folders below it are left out."""
    for path in files:
        if path.startswith(folder) and path.endswith(suffix) and "/" not in path[len(folder) :]:
            yield path[len(folder) : -len(suffix)], path


def _unread_lock(name: str) -> Unknown:
    return Unknown(where=f"lock/{name}.lock.json", reason="this lock cannot be read: see sources.locks")


def _otherwise(files: Mapping[str, bytes], locks: Mapping[str, Lock]) -> tuple[str, ...]:
    return tuple(name for name, lock in locks.items() if render_lock(lock) != files[f"lock/{name}.lock.json"])


def _recipes(facts: Facts) -> Shapes:
    shapes: list[Resolved] = []
    problems: list[Problem] = []
    silent: list[Unknown] = []
    for name in (facts.recipe,) if facts.recipe is not None else recipe_names(facts.launching):
        recipe, wrong = read_recipe(facts.launching, name)
        if recipe is None:
            # What is wrong in fabric/ is wrong for every recipe, and is told once.
            own = [one for one in wrong if not one.where.startswith("fabric/")]
            # The check of memory asks shapes alone, and of this recipe there are none.
            problems += [*own, *facts_problems(facts.launching, name)]
            reason = "this recipe does not load: see recipe.loads" if own else "needs fabric/: see fabric.readable"
            silent.append(Unknown(where=f"recipes/{name}.toml", reason=reason))
        else:
            shapes += (resolve(recipe, shape) for shape in recipe.shapes)
    return Shapes(shapes=tuple(shapes), problems=tuple(problems), silent=tuple(silent))


def _places(facts: Facts) -> Places:
    fabric, fabric_problems = _tried(partial(load_fabric, facts.launching))
    site: SiteInput | None = None
    site_problems: tuple[Problem, ...] = ()
    given = facts.site
    if given is not None and not isinstance(given.data, Unreadable):
        site, site_problems = _tried(partial(load_site_input, given.data, given.file))
    examples: dict[str, SiteInput] = {}
    example_problems: list[Problem] = []
    for cabling in _cablings(facts.launching):
        path = example_file(cabling)
        found, wrong = _tried(partial(load_site_input, facts.launching[path], path, example=True))
        example_problems += wrong
        if found is not None:
            examples[cabling] = found
    return Places(
        fabric=fabric,
        fabric_problems=fabric_problems,
        site=site,
        site_problems=site_problems,
        examples=examples,
        example_problems=tuple(example_problems),
    )


def _schemas(facts: Facts, shapes: Sequence[Resolved]) -> Schemas:
    schemas: dict[str, Schema] = {}
    problems: list[Problem] = []
    for image in sorted({one.image for one in shapes if one.schema is not None}):
        path = file_of(image)
        data = facts.launching.get(path)
        if data is None:
            hint = f"write it: derive schema {image} --write"
            problems.append(Problem(where=path, message="no such file, and shapes are checked against it", hint=hint))
            continue
        found, wrong = _tried(partial(load_schema, data, path))
        problems += wrong
        if found is not None:
            schemas[image] = found
    return Schemas(schemas=schemas, problems=tuple(problems))


def _cablings(files: Mapping[str, bytes]) -> Iterator[Cabling]:
    """Yield each cabling that has an example."""
    for cabling in NODES:
        if example_file(cabling) in files:
            yield cabling


def _tried(load: Callable[[], T]) -> tuple[T | None, tuple[Problem, ...]]:
    try:
        return load(), ()
    except InputErrors as error:
        return None, error.problems()
