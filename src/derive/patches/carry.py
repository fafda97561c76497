# SPDX-License-Identifier: Apache-2.0
"""Begins a rebase: finds the tree that a series fits, and the one that it shall fit.

Edge: the store and what fills it, the work trees.
"""

from __future__ import annotations

from pathlib import Path

from derive.canonical import Digest
from derive.errors import InputErrors
from derive.patches.apply import apply_series
from derive.patches.edit import settled
from derive.patches.identity import series_document
from derive.patches.origins import Shop, declared_source, earlier_source, named_tree
from derive.patches.publish import SeriesFiles
from derive.patches.rebase import Rebased, rebase_tree, start
from derive.patches.tree import reader
from derive.patches.worktree import open_tree


def carry_over(shop: Shop, series: SeriesFiles, edit_root: Path, *, onto: str | None, fits: str | None) -> Rebased:
    """Begin to carry a series over to a tree, by default the one that the project applies it to now.

    ``fits`` names the tree that the series applies to; without it, that is the declared source if it fits, else the
    tree that this series was last applied to in this store.

    Raises:
        InputErrors: when the work tree of the series holds what is not in it, or no tree is meant.
        CheckFailed: when the series does not apply to ``onto``, and no tree is known that it fits.
    """
    tree = open_tree(edit_root)
    unsaved = settled(tree, series).unsaved() if tree is not None else None
    if unsaved is not None:
        hint = f"make it part of the series first: derive patches refresh {series.upstream}; or remove the folder"
        raise InputErrors.one(f"the work tree holds {unsaved}", where=str(edit_root), hint=hint)
    target = named_tree(shop, onto, series.upstream) if onto is not None else declared_source(shop, series.upstream)
    base = (
        named_tree(shop, fits, series.upstream)
        if fits is not None
        else _fitting(shop, series, declared=onto is not None)
    )
    listing = shop.store.listing
    called = onto or "the source that is locked"
    return start(
        shop.store,
        series,
        rebase_tree(edit_root),
        onto=(called, listing(target)),
        base=None if base is None else listing(base),
    )


def _fitting(shop: Shop, series: SeriesFiles, *, declared: bool) -> Digest | None:
    patches = series.loaded.patches
    if declared:
        try:
            source = declared_source(shop, series.upstream)
            apply_series([one.operations for one in patches], reader(shop.store, shop.store.listing(source)))
        except InputErrors:
            pass
        else:
            return source
    return earlier_source(shop, series.upstream, series_document(patches))
