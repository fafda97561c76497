# SPDX-License-Identifier: Apache-2.0
"""The checks of the site's file, and of the examples that stand in for it.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from derive.doctor.check import Answer, Check, Unknown
from derive.doctor.model import SiteFile, Unreadable
from derive.errors import Problem, expected_got

if TYPE_CHECKING:
    from derive.doctor.case import Case

_OTHERS_READ = 0o004


def _with_file(judge: Callable[[SiteFile], Iterable[Answer]]) -> Callable[[Case], Iterator[Answer]]:
    """Return the judge of the site's file; without one there is nothing to judge."""

    def judged(case: Case) -> Iterator[Answer]:
        site = case.facts.site
        if site is None:
            return
        if isinstance(site.data, Unreadable):
            yield Unknown(where=site.data.where, reason=site.data.reason)
        else:
            yield from judge(site)

    return judged


def _loads(case: Case) -> Iterator[Answer]:
    yield from _with_file(lambda _: case.places.site_problems)(case)


def _outside(site: SiteFile) -> Iterator[Answer]:
    if site.inside is None:
        return
    if site.tracked:
        yield Problem(where=site.file, message="git has the site's file, and with it addresses and users of one place")
    elif site.ignored is None:
        yield Unknown(where=site.file, reason="lies inside the project, and git does not say whether it passes over it")
    elif not site.ignored:
        detail = (f"inside    {site.inside}",)
        yield Problem(where=site.file, message="lies in the repository, and git does not ignore it", detail=detail)


def _private(site: SiteFile) -> Iterator[Answer]:
    if site.mode is None:
        yield Unknown(where=site.file, reason="its mode is not known")
    elif site.mode & _OTHERS_READ:
        detail = expected_got("0600 or 0640", f"{site.mode:04o}")
        yield Problem(where=site.file, message="everybody on this machine can read it", detail=detail)


def _picks(case: Case) -> Iterator[Answer]:
    site = case.places.site
    if case.facts.site is None:
        return
    if site is None:
        yield Unknown(where=case.facts.site.file, reason="the site's file cannot be read: see site.loads")
        return
    for recipe, shape in site.site.shapes:
        if case.facts.recipe not in (None, recipe):
            continue
        where = site.at(f"shapes.{recipe}")
        silent = [one for one in case.recipes.silent if one.where == f"recipes/{recipe}.toml"]
        shapes = {one.shape: one for one in case.shapes if one.recipe == recipe}
        if silent:
            yield from silent
        elif not shapes:
            known = ", ".join(sorted({one.recipe for one in case.shapes})) or "none"
            yield Problem(where=where, message=f"no recipe is called {recipe!r}", detail=(f"known     {known}",))
        elif shape not in shapes:
            known = ", ".join(sorted(shapes))
            yield Problem(where=where, message=f"{recipe} has no shape {shape!r}", detail=(f"known     {known}",))
        elif shapes[shape].cabling != site.site.cabling:
            detail = expected_got(f"a shape for {site.site.cabling}", f"{shape}, for {shapes[shape].cabling}")
            yield Problem(where=where, message="this shape is for another cabling", detail=detail)


def _examples(case: Case) -> Iterator[Answer]:
    yield from case.places.example_problems
    wanted = {one.cabling for one in case.shapes}
    for cabling in sorted(wanted - case.places.examples.keys()):
        if not any(one.where.startswith(f"fabric/examples/{cabling}.") for one in case.places.example_problems):
            yield Problem(where=f"fabric/examples/{cabling}.toml", message="no such file, and shapes are cabled so")
    for name, one in sorted(case.places.examples.items()):
        if one.site.cabling != name:
            detail = expected_got(name, one.site.cabling)
            yield Problem(where=one.at("cabling"), message="the example of another cabling", detail=detail)


CHECKS: tuple[Check, ...] = (
    Check(
        id="site.loads",
        severity="error",
        what="the site's file can be read, and obeys what every site obeys",
        why="a site that is wrong on paper is wrong in every launch file",
        how="the file that --site names, else $DERIVE_SITE, else site.toml in the user's derive folder, key by key; "
        "its nodes, cables, devices and addresses against each other; no machine is asked",
        fix="see docs/fabric.md",
        place="the site's file",
        judge=_loads,
        over="site",
    ),
    Check(
        id="site.outside",
        severity="error",
        what="the site's file is no part of the repository",
        why="addresses and users of one place would be in every clone, and every place would need a branch",
        how="whether the file lies in the project's repository, and whether git has it or ignores it",
        fix="move it to site.toml in the user's derive folder; derive site init writes it there",
        place="the site's file",
        judge=_with_file(_outside),
        over="site",
    ),
    Check(
        id="site.private",
        severity="warn",
        what="others on this machine cannot read the site's file",
        why="it says who may log in where",
        how="the file's permission bits",
        fix="run: chmod 600 FILE",
        place="the site's file",
        judge=_with_file(_private),
        over="site",
    ),
    Check(
        id="site.shapes",
        severity="error",
        what="the shapes that the site picked are there, and for its cabling",
        why="what is not there is not deployed, and a shape for another cabling waits for peers without a cable",
        how="each pair of [shapes] in the site's file, against the recipes",
        fix="run: derive site shape NAME --apply",
        place="the site's file",
        judge=_picks,
        over="site",
    ),
    Check(
        id="site.examples",
        severity="error",
        what="there is a sound example of every cabling that a shape has",
        why="without a site's file launch files are rendered for the example",
        how="each fabric/examples/*.toml is read as a site is, and its cabling compared with its name",
        fix="write fabric/examples/CABLING.toml; docs/fabric.md has one",
        place="fabric/examples/",
        judge=_examples,
    ),
)
