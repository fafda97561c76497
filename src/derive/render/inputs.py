# SPDX-License-Identifier: Apache-2.0
"""What a rendering is made from, read and judged: recipe, fabric, site, and what the image can do.

Edge: the project's files, the site's file, the environment that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from derive.errors import InputErrors, Problem
from derive.fabric.examples import example, example_file, example_note
from derive.fabric.places import find_site, read_site
from derive.fabric.rule import SiteInput
from derive.fabric.rules import problems as fabric_breaches
from derive.fabric.site import Site
from derive.fabric.transports import Fabric
from derive.project import load_launching
from derive.recipes.deployable import awaited
from derive.recipes.load import Recipe, load_recipe, recipe_names
from derive.recipes.resolve import resolve
from derive.recipes.resolved import Resolved
from derive.render.chosen import Chosen
from derive.render.judgement import Judgement, judge

__all__ = ["Chosen", "Inputs", "read_inputs", "read_placed", "unknown"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """All that a rendering needs but the image's digest. ``notes`` are for the person alone."""

    files: Mapping[str, bytes]
    recipe: Recipe
    resolved: Resolved
    fabric: Fabric
    site: Site
    site_file: str
    judgement: Judgement
    notes: tuple[str, ...]


def read_inputs(root: Path, chosen: Chosen, environ: Mapping[str, str], usual: str) -> Inputs:
    """Read and judge; ``usual`` is the recipe that is meant where there are several and none is named.

    Raises:
        InputErrors: everything that is wrong with recipe, fabric and site, in all files at once.
    """
    read = _read(root, chosen, environ, usual)
    judgement, notes = _judged(read)
    if read.is_example:
        notes = (example_note(read.site.file), *notes)
    return Inputs(
        files=read.files,
        recipe=read.recipe,
        resolved=read.resolved,
        fabric=read.recipe.fabric,
        site=read.site.site,
        site_file=read.site.file,
        judgement=judgement,
        notes=(*notes, *read.resolved.notes),
    )


def read_placed(
    root: Path, chosen: Chosen, environ: Mapping[str, str], usual: str
) -> tuple[Recipe, Resolved, SiteInput]:
    """Return the recipe, the shape and the site that are meant, without judging whether it can run there.

    Raises as above.
    """
    read = _read(root, chosen, environ, usual)
    return read.recipe, read.resolved, read.site


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What was read, each by itself without a fault."""

    files: Mapping[str, bytes]
    recipe: Recipe
    resolved: Resolved
    site: SiteInput
    is_example: bool


def _read(root: Path, chosen: Chosen, environ: Mapping[str, str], usual: str) -> _Read:
    files = load_launching(root)
    problems: list[Problem] = []
    recipe = _tried(lambda: load_recipe(files, _recipe_name(files, chosen.recipe, usual)), problems)
    path = find_site(environ, chosen.site)
    given = None if path is None else _tried(lambda: read_site(path), problems)
    resolved = None if recipe is None else _tried(lambda: resolve(recipe, _shape(recipe, chosen, given)), problems)
    if path is None and resolved is not None:
        cabling = resolved.cabling
        site = _tried(lambda: example(files, cabling), problems)
        given = None if site is None else SiteInput(site=site, file=example_file(cabling))
    if problems or recipe is None or given is None or resolved is None:
        raise _everything(problems, files)
    return _Read(files=files, recipe=recipe, resolved=resolved, site=given, is_example=path is None)


def _recipe_name(files: Mapping[str, bytes], named: str | None, usual: str) -> str:
    names = recipe_names(files)
    if named is not None or usual in names or len(names) != 1:
        return named or usual
    return names[0]


def _shape(recipe: Recipe, chosen: Chosen, given: SiteInput | None) -> str | None:
    """Return the shape's name: the one named, else the site's pick; None for the recipe's default."""
    picks = dict(given.site.shapes) if given is not None else {}
    return chosen.shape or picks.get(recipe.name)


def _judged(read: _Read) -> tuple[Judgement, tuple[str, ...]]:
    """Judge the shape at the site; also return notes about what is only to be known."""
    given = read.site
    breaches = fabric_breaches(read.resolved, given.site, read.recipe.fabric, given.file, given.cable_numbers)
    problems = [breach.problem for breach in breaches if breach.rule.severity == "error" and breach.rule.refuses]
    judgement, found = judge(read.resolved, read.files, read.recipe.fabric)
    problems += found
    unchecked = unknown(read.resolved, read.files, awaited(read.resolved, judgement.missing), problems)
    if problems:
        raise _everything(problems, read.files)
    warned = (breach.problem for breach in breaches if breach.rule.severity == "warn")
    return judgement, (*(f"{one.where}: {one.message}" for one in warned), *unchecked)


def unknown(
    resolved: Resolved, files: Mapping[str, bytes], waiting: frozenset[str], problems: list[Problem]
) -> tuple[str, ...]:
    """Add each option and variable that the image's programs would not take; return a note where nobody can say."""
    if resolved.schema is None:
        return ()
    file = f"recipes/{resolved.image}.schema.json"
    if file not in files:
        return (f"options and variables are not checked: no {file} (derive schema {resolved.image} --write)",)
    from derive.schema import check
    from derive.schema.model import load_schema

    schema = _tried(lambda: load_schema(files[file], file), problems)
    if schema is not None:
        problems += check.problems(resolved, schema, resolved.dropped, waiting)
    return ()


def _everything(problems: list[Problem], files: Mapping[str, bytes]) -> InputErrors:
    """Return the error for what was found, with what is wrong in what a rendering would read next."""
    from derive.memory.load import facts_problems
    from derive.render.templates import template_problems

    return InputErrors([*problems, *facts_problems(files), *template_problems(files)])


def _tried(read: Callable[[], T], problems: list[Problem]) -> T | None:
    """Return what is read, or None with what is wrong among the problems."""
    try:
        return read()
    except InputErrors as error:
        problems += error.problems()
        return None
