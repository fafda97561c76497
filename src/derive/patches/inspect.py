# SPDX-License-Identifier: Apache-2.0
"""A project's series judged on the trees that they are applied to, or on another one.

Edge: the store, and what fills it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.derivations.scope import absent, load_scope
from derive.derivations.series import Use, uses
from derive.errors import InputErrors
from derive.patches.origins import named_tree, source_tree
from derive.patches.overview import load_all
from derive.patches.report import Report
from derive.patches.status import Named, judge
from derive.patches.tree import reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from derive.canonical import Digest
    from derive.patches.origins import Shop
    from derive.project import Project


def uses_of(project: Project, upstream: str) -> tuple[Use, ...]:
    """Return the places at which a series is applied, in the order of their files.

    Raises:
        InputErrors: everything wrong with the project, no such series, or one that nothing applies.
    """
    scope = load_scope(project)
    if upstream not in scope.series:
        raise InputErrors([absent("patches/", "series", upstream, scope.series, "what there is: derive patches list")])
    found = uses(scope, upstream)
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
        for source, digest in _trees(shop, name, onto):
            read = reader(shop.store, shop.store.listing(digest))
            reports.append(Report(upstream=name, source=source, digest=digest, judged=judge(series, read)))
    return reports


def _trees(shop: Shop, upstream: str, onto: str | None) -> Iterator[tuple[str, Digest]]:
    if onto is not None:
        yield onto, named_tree(shop, onto, upstream)
        return
    for source in dict.fromkeys(source for use in uses_of(shop.project, upstream) for source in use.sources):
        yield source.name, source_tree(shop, source)
