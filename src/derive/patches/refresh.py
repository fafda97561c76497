# SPDX-License-Identifier: Apache-2.0
"""Makes a series again from the commits of its work tree, which then are the commits that the series would give.

Edge: the file system, git.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from derive.canonical import escape
from derive.errors import CheckFailed, InputErrors
from derive.patches.apply import try_patch
from derive.patches.edit import find_patch, settled
from derive.patches.make import operations_between
from derive.patches.message import read_message
from derive.patches.model import FileOperation, FileState, Patch
from derive.patches.publish import SeriesFiles, files_digest, publish
from derive.patches.repository import Commit, NewCommit, Repository
from derive.patches.series_files import Made, SeriesMaker
from derive.patches.trail import Files, changes_to, paths_read, walk
from derive.patches.worktree import WHOLE, WorkTree, patch_commit, require_tree, tree_lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """What became of each patch: written again, new, as it was, gone; ``moved`` when the order is another."""

    kept: tuple[str, ...]
    changed: tuple[str, ...]
    new: tuple[str, ...]
    dropped: tuple[str, ...]
    moved: bool
    waiting: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether the project's files are as they were."""
        return not (self.changed or self.new or self.dropped or self.moved)


def refresh(series: SeriesFiles, root: Path, *, fold: str | None = None) -> Refreshed:
    """Write the series that the work tree holds into the project.

    ``fold`` names the patch that changes which are not committed become a part of; without it there must be none.

    Raises:
        InputErrors: when the tree is not ready, or holds what no patch can; nothing has changed.
        CheckFailed: when a patch that waits, or a commit above the folded one, does not apply any more.
    """
    with tree_lock(root):
        tree = settled(require_tree(root, series.upstream), series)
        if tree.state.series != str(series.digest):
            hint = "keep the work elsewhere, remove the folder, and open it again: derive patches edit"
            raise InputErrors.one("the series has changed since the work tree was made", where=series.where, hint=hint)
        head = _ready(tree, series, fold)
        applied = tree.commits(head)
        waiting = tree.waiting(applied)
        maker = _made(tree, series, applied, waiting)
        files = maker.files(series.files)
        tree = tree.save(next_series=str(files_digest(files)))
        after = publish(series, files)
        _rebuild(tree, maker.made, len(applied), head)
        tree.save(series=str(after.digest), next_series="", waiting=waiting)
        return _report(series, maker.made, waiting)


def _ready(tree: WorkTree, series: SeriesFiles, fold: str | None) -> str:
    """Return the commit that holds everything that is to go into the series."""
    unfinished = tree.repository.unfinished()
    if unfinished is not None:
        hint = "end it with git, or give it up"
        raise InputErrors.one(f"the work tree holds {unfinished} that is not finished", where=str(tree.root), hint=hint)
    dirty = tree.repository.dirty()
    if not dirty:
        return tree.head
    if fold is None:
        shown = [escape(path) for path in dirty[:10]] + (["..."] if len(dirty) > 10 else [])
        hint = f"commit them, or say which patch they belong to: derive patches refresh {series.upstream} PATCH"
        message = "the work tree holds changes that are not committed"
        raise InputErrors.one(message, where=str(tree.root), detail=shown, hint=hint)
    return _folded(tree, find_patch(series, fold))


def _folded(tree: WorkTree, name: str) -> str:
    """Return a commit like the last, below which the named patch holds the changes of the work tree too."""
    repository = tree.repository
    applied = tree.commits()
    at = next((index for index, one in enumerate(applied) if name in read_message(one.message).names), None)
    if at is None:
        raise InputErrors.one(f"{name} is not checked out", where=str(tree.root), hint="open the tree at that patch")
    worked = repository.worked_tree()
    own = operations_between(changes_to(repository, tree.head, worked))
    below = applied[at - 1].id if at else tree.state.base
    files = Files(repository, below)
    commits: list[NewCommit] = []
    for commit, one in zip(applied[at:], walk(repository, Files(repository, below), applied[at:]), strict=True):
        operations = operations_between(one.changes) if one.changes else ()
        changes = dict(_after(tree, operations, files, read_message(commit.message).names))
        files.write(changes)
        if commit is applied[at]:
            more = _after(tree, own, files, (name,))
            files.write(more)
            changes |= more
        commits.append(NewCommit(changes=changes, author=commit.author, message=commit.message))
    made = repository.import_commits(below, commits)[-1]
    if repository.differences(made, worked):
        raise CheckFailed(f"the changes do not go below the patches above {name}", where=str(tree.root), hint=_FIXUP)
    return made


_FIXUP = "commit them with git commit --fixup, and let git rebase -i --autosquash merge them"


def _after(
    tree: WorkTree, operations: Sequence[FileOperation], files: Files, names: Sequence[str]
) -> Mapping[bytes, FileState | None]:
    tried = try_patch(operations, files.read)
    if tried.refused:
        name = names[0] if names else "a commit"
        detail = [f"{one.where}: {one.message}" for one in (refused.problem(name) for refused in tried.refused)]
        raise CheckFailed(
            "the changes do not go into that patch alone", where=str(tree.root), detail=detail, hint=_FIXUP
        )
    return tried.after


def _made(tree: WorkTree, series: SeriesFiles, applied: Sequence[Commit], waiting: Sequence[str]) -> SeriesMaker:
    originals = {patch.name: (series.files[patch.name], patch) for patch in series.loaded.patches}
    maker = SeriesMaker(originals=originals, reserved=frozenset(waiting))
    files = Files(tree.repository, tree.state.base)
    for step in walk(tree.repository, files, applied):
        maker.take(step.commit.message, step.commit.author, step.changes, step.read)
    files.fetch(paths_read(originals[name][1] for name in waiting))
    for name in waiting if not maker.problems else ():
        try:
            files.write(maker.take_waiting(originals[name][1], originals[name][0], files.read))
        except InputErrors as error:
            detail = [f"{one.where}: {one.message}" for one in error.problems()]
            hint = f"bring it up, and resolve the conflict: derive patches edit {series.upstream}"
            raise CheckFailed(f"{name} waits, and does not apply any more", detail=detail, hint=hint) from error
    return maker


def _rebuild(tree: WorkTree, made: Sequence[Made], applied: int, head: str) -> None:
    """Make the commits those that the series gives; the files that lie in the work tree stay as they are."""
    ids = chain_of(tree.repository, tree.state.base, [one.patch for one in made])
    tree.repository.set_ref(WHOLE, ids[-1] if ids else tree.state.base)
    tip = ids[applied - 1] if applied else tree.state.base
    assert not tree.repository.differences(tip, head)
    if tip != tree.head:
        tree.repository.move_branch(tip)


def chain_of(repository: Repository, base: str, patches: Sequence[Patch]) -> list[str]:
    """Write patches as commits upon one another, and return their ids; they must apply."""
    files = Files(repository, base)
    files.fetch(paths_read(patches))
    commits = []
    for patch in patches:
        changes = try_patch(patch.operations, files.read).after
        files.write(changes)
        commits.append(patch_commit(patch.name, patch.header.text, changes))
    return repository.import_commits(base, commits)


def _report(series: SeriesFiles, made: Sequence[Made], waiting: tuple[str, ...]) -> Refreshed:
    before, now = series.loaded.series.names, [one.name for one in made]
    return Refreshed(
        kept=tuple(one.name for one in made if one.kept),
        changed=tuple(one.name for one in made if not one.kept and one.name in before),
        new=tuple(name for name in now if name not in before),
        dropped=tuple(name for name in before if name not in now),
        moved=[name for name in before if name in now] != [name for name in now if name in before],
        waiting=waiting,
    )
