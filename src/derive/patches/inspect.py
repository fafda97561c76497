# SPDX-License-Identifier: Apache-2.0
"""A project's series judged on the trees that they are applied to, or on another one.

Edge: the store, and what fills it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.derivations.declarations import PatchDecl
from derive.derivations.scope import absent, load_scope
from derive.errors import InputErrors
from derive.patches.origins import named_tree
from derive.patches.overview import load_all
from derive.patches.report import Report
from derive.patches.status import Named, judge
from derive.patches.tree import reader

if TYPE_CHECKING:
    from derive.patches.origins import Shop
    from derive.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A declared derivation that applies a series: its name, and that of what it applies it to."""

    name: str
    source: str


def uses_of(project: Project, upstream: str) -> tuple[Use, ...]:
    """Return the derivations that apply a series, in the order of their files.

    Raises:
        InputErrors: everything wrong with the project, no such series, or one that nothing applies.
    """
    scope = load_scope(project)
    if upstream not in scope.series:
        raise InputErrors([absent("patches/", "series", upstream, scope.series, "what there is: derive patches list")])
    found = tuple(
        Use(name=name, source=one.declaration.source)
        for name, one in scope.declared.items()
        if isinstance(one.declaration, PatchDecl) and one.declaration.series == upstream
    )
    if not found:
        hint = f'declare one: builder = "patch", series = "{upstream}"; or name a tree with --onto'
        raise InputErrors.one("no derivation applies this series", where=f"patches/{upstream}", hint=hint)
    return found


def judged(shop: Shop, upstream: str | None, onto: str | None) -> list[Report]:
    """Judge one series, or all, on what the project's derivations apply them to, or on the tree that ``onto`` names.

    Raises:
        InputErrors: from :func:`uses_of`, or when ``onto`` names no tree.
        DeriveError: from fetching and unpacking.
    """
    reports: list[Report] = []
    for name, loaded in load_all(shop.project, upstream).items():
        series = [Named(name=patch.name, operations=patch.operations) for patch in loaded.patches]
        sources = [onto] if onto is not None else dict.fromkeys(use.source for use in uses_of(shop.project, name))
        for source in sources:
            digest = named_tree(shop, source if onto is not None else f"drv:{source}", name)
            read = reader(shop.store, shop.store.listing(digest))
            reports.append(Report(upstream=name, source=source, digest=digest, judged=judge(series, read)))
    return reports
