# SPDX-License-Identifier: Apache-2.0
"""Opens a series as a work tree, moves in it from patch to patch, and brings up those that wait.

Edge: the file system, git, the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from derive.errors import DeriveError, InputErrors
from derive.patches.conflict import Conflicted, unmerged
from derive.patches.message import read_message
from derive.patches.model import Patch
from derive.patches.origins import Shop, declared_source, named_tree
from derive.patches.publish import SeriesFiles
from derive.patches.repository import Commit, Repository
from derive.patches.worktree import (
    TreeState,
    WorkTree,
    bring_exactly,
    create_tree,
    open_tree,
    tree_lock,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A work tree that is ready: what is checked out, what waits above it, and what could not be brought up."""

    root: Path
    applied: tuple[str, ...]
    waiting: tuple[str, ...]
    conflicted: Conflicted | None = None
    made: bool = False


def find_patch(series: SeriesFiles, text: str) -> str:
    """Return the patch of a series that is meant: by its file name, its number, or a part of its name.

    Raises:
        InputErrors: when it is none, or several.
    """
    names = series.loaded.series.names
    for meant in (
        [name for name in names if name in {text, f"{text}.patch"}],
        [name for name in names if name.startswith(f"{text}-")],
        [name for name in names if text in name],
    ):
        if len(meant) == 1:
            return meant[0]
        if meant:
            raise InputErrors.one(f"{text!r} may be several patches", where=series.where, detail=meant)
    hint = f"the series: {', '.join(names[:10])}{' ...' if len(names) > 10 else ''}" if names else "the series is empty"
    raise InputErrors.one(f"no patch is called {text!r}", where=series.where, hint=hint)


def edit(shop: Shop, series: SeriesFiles, root: Path, *, patch: str | None, source: str | None) -> Opened:
    """Open the work tree of a series, or make it: with a patch, as it is after that patch, the rest waiting.

    Without one, every patch that waits is brought up; where it does not apply any more, git merges it, and a conflict
    is left in the tree to be resolved.

    Raises:
        InputErrors: when the series does not apply, or the tree holds work that opening it would lose.
    """
    name = None if patch is None else find_patch(series, patch)
    digest = named_tree(shop, source, series.upstream) if source is not None else declared_source(shop, series.upstream)
    with tree_lock(root) as staged:
        tree = open_tree(root)
        if tree is not None:
            tree = settled(tree, series)
            if tree.state.upstream != series.upstream:
                raise InputErrors.one(f"a work tree of {tree.state.upstream}", where=str(root))
            unsaved = tree.unsaved()
            current = (tree.state.source, tree.state.series) == (str(digest), str(series.digest))
            if unsaved is None and not current:
                tree = None
            elif unsaved is not None and (name is not None or not current):
                raise InputErrors.one(
                    f"the work tree holds {unsaved}", where=str(root), hint=_what_to_do(series, current=current)
                )
        made = tree is None
        if tree is None:
            state = TreeState(upstream=series.upstream, source=str(digest), base="", series=str(series.digest))
            tree = create_tree(staged, root, shop.store, shop.store.listing(digest), series.loaded.patches, state)
        if name is not None:
            return _opened(_moved(tree, name), made=made)
        return _brought_up(tree, series.loaded.patches, made=made)


def _what_to_do(series: SeriesFiles, *, current: bool) -> str:
    if current:
        return f"make it part of the series: derive patches refresh {series.upstream}; or remove the folder"
    return "the series or its source has changed since: keep the work elsewhere, and remove the folder"


def settled(tree: WorkTree, series: SeriesFiles) -> WorkTree:
    """Return a tree whose state agrees with the series, if the last writer of the series was the tree itself."""
    if tree.state.next_series and tree.state.next_series == str(series.digest):
        return tree.save(series=tree.state.next_series, next_series="")
    return tree


def _opened(tree: WorkTree, *, made: bool = False, conflicted: Conflicted | None = None) -> Opened:
    applied = tree.commits()
    names = tuple((read_message(commit.message).names or (commit.id[:12],))[0] for commit in applied)
    return Opened(root=tree.root, applied=names, waiting=tree.waiting(applied), conflicted=conflicted, made=made)


def _moved(tree: WorkTree, name: str) -> WorkTree:
    """Check out a clean tree as it is after a patch."""
    whole = tree.whole()
    names = list(whole)
    above = tuple(names[names.index(name) + 1 :])
    # First the note, then the move: a patch that is both checked out and said to wait counts once.
    tree = tree.save(waiting=(*above, *(other for other in tree.state.waiting if other not in above)))
    tree.repository.move_to(whole[name].id)
    return tree.save(waiting=above)


def _brought_up(tree: WorkTree, patches: Sequence[Patch], *, made: bool) -> Opened:
    waiting = tree.waiting(tree.commits())
    if not waiting:
        return _opened(tree.save(waiting=()), made=made)
    if (unsaved := tree.repository.unfinished()) or tree.repository.dirty():
        what = f"{unsaved} that is not finished" if unsaved else "changes that are not committed"
        hint = "end it, or commit, before the patches that wait are brought up"
        raise InputErrors.one(f"the work tree holds {what}", where=str(tree.root), hint=hint)
    whole = tree.whole()
    rest = [patch for name in waiting for patch in patches if patch.name == name]
    while rest:
        done = bring_exactly(tree.repository, tree.head, rest)
        if done:
            tree.repository.move_to(done[-1][0])
            rest = rest[len(done) :]
        elif _picked(tree.repository, whole[rest[0].name]):
            rest = rest[1:]
        else:
            return _opened(tree, made=made, conflicted=unmerged(tree.repository, rest[0].name))
    return _opened(tree.save(waiting=()), made=made)


def _picked(repository: Repository, commit: Commit) -> bool:
    """Put a commit on top of what is checked out, as git merges it. False: in conflict, left there."""
    done = repository.run(("cherry-pick", "--allow-empty", "--keep-redundant-commits", commit.id), codes=(0, 1))
    if done.returncode and repository.unfinished() is None:
        said = done.stderr.decode("utf-8", "backslashreplace").strip().split("\n")
        raise DeriveError("a patch that waits cannot be brought up", where=str(repository.root), detail=said[-10:])
    return done.returncode == 0
