# SPDX-License-Identifier: Apache-2.0
"""Carries a series over to another source, patch by patch, in a work tree of its own; the project changes at the end.

Edge: the file system, git, the store.

A patch that applies exactly is taken as it is. What does not is merged by git, which knows the source that the patch
was made for; a conflict stops there, and everything until then is noted. Given up, nothing has changed but a folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from derive.canonical import escape
from derive.errors import CheckFailed, InputErrors
from derive.patches.apply import try_patch
from derive.patches.conflict import Conflicted, unmerged
from derive.patches.model import FileState, Patch
from derive.patches.publish import SeriesFiles, files_digest, publish
from derive.patches.repository import OURS, NewCommit, Repository
from derive.patches.series_files import SeriesMaker
from derive.patches.trail import Files, walk
from derive.patches.worktree import bring_exactly, discard, import_series, source_files, tree_lock, write_state
from derive.store.protocol import Store
from derive.trees.listing import Listing

Outcome: TypeAlias = Literal["applied", "moved", "merged", "resolved", "already there", "skipped"]
"""What became of a patch: the last two are no more in the series."""

_STATE = "derive-rebase.json"
_FORMAT = "patches-rebase/1"
_OPENING, _CLOSING = b"<<<<<<< ", b">>>>>>> "


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a rebase is. ``head`` is the commit reached, ``queue`` what is to come, ``stopped`` what is in conflict.

    ``old`` maps patches to their commits upon the source that they were made for. ``next_series`` is set when the
    series is being written.
    """

    upstream: str
    series: str
    onto: str
    base: str
    head: str
    queue: tuple[str, ...]
    old: Mapping[str, str]
    done: tuple[tuple[str, str], ...] = ()
    stopped: str = ""
    next_series: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebased:
    """Where a rebase is: at its end when there is no conflict. ``outcomes`` are of the patches done, in order."""

    root: Path
    outcomes: tuple[tuple[str, str], ...]
    left: tuple[str, ...] = ()
    conflicted: Conflicted | None = None


@dataclass(slots=True, kw_only=True)
class _Rebase:
    """A rebase under way, and the series of the project."""

    root: Path
    repository: Repository
    progress: Progress
    patches: Mapping[str, Patch] = field(default_factory=dict)

    def save(self, **changes: object) -> None:
        self.progress = replace(self.progress, **changes)  # type: ignore[arg-type]
        write_state(self.repository.folder / _STATE, {"derive": _FORMAT, **asdict(self.progress)})

    def done(self, outcome: Outcome, head: str) -> None:
        """Go on to the next patch; what was reached is noted."""
        name, *queue = self.progress.queue
        done = (*self.progress.done, (name, outcome))
        self.progress = replace(self.progress, head=head, queue=tuple(queue), done=done, stopped="")


def rebase_tree(edit_root: Path) -> Path:
    """Return where a series is rebased whose work tree is, or would be, here."""
    return edit_root.with_name(edit_root.name + ".rebase")


def start(store: Store, series: SeriesFiles, root: Path, *, onto: tuple[str, Listing], base: Listing | None) -> Rebased:
    """Begin to carry a series over to ``onto``, a tree and what it is called, from the tree ``base`` that it fits.

    Raises:
        InputErrors: when one is under way already, or the series does not apply to ``base``.
        CheckFailed: without a base, when the series does not apply to ``onto`` as it is.
    """
    with tree_lock(root) as staged:
        if root.exists():
            hint = "go on with --continue, leave a patch out with --skip, give it up with --abort"
            raise InputErrors.one(f"a rebase of {series.upstream} is under way", where=str(root), hint=hint)
        patches = {patch.name: patch for patch in series.loaded.patches}
        staged.mkdir()
        repository = Repository(staged)
        repository.create()
        old: list[str] = []
        if base is not None:
            _, old = import_series(repository, store, base, series.loaded.patches)
            repository.set_ref("refs/derive/old", old[-1] if old else _)
        message = b"The source\n"
        (head,) = repository.import_commits(
            None, [NewCommit(changes=source_files(store, onto[1]), author=OURS, message=message)]
        )
        repository.check_out(head)
        progress = Progress(
            upstream=series.upstream,
            series=str(series.digest),
            onto=onto[0],
            base=head,
            head=head,
            queue=tuple(patches),
            old=dict(zip(patches, old, strict=False)),
        )
        rebase = _Rebase(root=staged, repository=repository, progress=progress, patches=patches)
        if base is None:
            _require_exact(rebase)
        rebase.save()
        staged.rename(root)
        rebase.root, rebase.repository = root, Repository(root)
        return _run(rebase, series)


def go_on(series: SeriesFiles, root: Path, *, skip: bool = False) -> Rebased:
    """Take what a person made of a conflict, or leave that patch out, and go on.

    Raises:
        InputErrors: when no rebase is under way, or the conflict is not resolved yet.
    """
    with tree_lock(root):
        rebase = _open(series, root)
        if rebase.progress.next_series and rebase.progress.next_series == str(series.digest):
            discard(root)
            return Rebased(root=root, outcomes=rebase.progress.done)
        if rebase.progress.series != str(series.digest):
            hint = "give the rebase up with --abort, and begin again"
            raise InputErrors.one("the series has changed since the rebase began", where=series.where, hint=hint)
        if rebase.progress.stopped:
            if skip:
                rebase.done("skipped", rebase.progress.head)
            else:
                _take_resolution(rebase)
            rebase.save()
        elif skip:
            raise InputErrors.one("no patch is in conflict", where=str(root), hint="go on with --continue")
        return _run(rebase, series)


def give_up(upstream: str, root: Path) -> Path:
    """End a rebase without a change to the project; return the folder in which its work tree is kept for now.

    Raises:
        InputErrors: when none is under way.
    """
    with tree_lock(root):
        if not (root / ".git" / _STATE).exists():
            raise _none(upstream, root)
        kept = root.with_name(root.name + "-given-up")
        discard(kept)
        root.rename(kept)
        return kept


def _none(upstream: str, root: Path) -> InputErrors:
    hint = f"begin one: derive patches rebase {upstream}"
    return InputErrors.one(f"no rebase of {upstream} is under way", where=str(root), hint=hint)


def _open(series: SeriesFiles, root: Path) -> _Rebase:
    try:
        document = json.loads((root / ".git" / _STATE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise _none(series.upstream, root) from None
    if document.pop("derive", None) != _FORMAT:
        raise InputErrors.one("a rebase by another derive", where=str(root), hint="give it up with --abort")
    document["queue"] = tuple(document["queue"])
    document["done"] = tuple((name, outcome) for name, outcome in document["done"])
    patches = {patch.name: patch for patch in series.loaded.patches}
    return _Rebase(root=root, repository=Repository(root), progress=Progress(**document), patches=patches)


def _require_exact(rebase: _Rebase) -> None:
    """Refuse a series that cannot be merged, for want of the source that it was made for, and does not apply."""
    files = Files(rebase.repository, rebase.progress.head)
    for patch in rebase.patches.values():
        tried = try_patch(patch.operations, files.read)
        if tried.refused:
            problems = [refused.problem(patch.name) for refused in tried.refused]
            hint = "name the source that the series fits, so that it can be merged: --from"
            raise CheckFailed(
                f"{patch.name} does not apply, and no source is known that it applies to",
                where=f"patches/{rebase.progress.upstream}",
                detail=[f"{one.where}: {one.message}" for one in problems],
                hint=hint,
            )
        files.write(tried.after)


def _run(rebase: _Rebase, series: SeriesFiles) -> Rebased:
    """Go on until a conflict or the end."""
    while rebase.progress.queue:
        coming = [rebase.patches[name] for name in rebase.progress.queue]
        for head, moved in bring_exactly(rebase.repository, rebase.progress.head, coming):
            rebase.done("moved" if moved else "applied", head)
        if rebase.progress.queue and not _merged(rebase, rebase.patches[rebase.progress.queue[0]]):
            stopped, *left = rebase.progress.queue
            rebase.save(stopped=stopped)
            conflicted = unmerged(rebase.repository, stopped)
            return Rebased(root=rebase.root, outcomes=rebase.progress.done, left=tuple(left), conflicted=conflicted)
    return _finish(rebase, series)


def _merged(rebase: _Rebase, patch: Patch) -> bool:
    """Let git merge a patch; False when it is left in conflict."""
    repository, head = rebase.repository, rebase.progress.head
    rebase.save()
    (repository.folder / "index.lock").unlink(missing_ok=True)  # of a git that was killed here: the tree is ours
    repository.run(("cherry-pick", "--quit"), codes=(0, 1, 128))
    repository.check_out(head)
    repository.run(
        ("cherry-pick", "--allow-empty", "--keep-redundant-commits", rebase.progress.old[patch.name]), codes=(0, 1)
    )
    if repository.unfinished() is not None:
        return False
    made = repository.resolve("HEAD") or ""
    if made == head:
        raise CheckFailed(f"git could not merge {patch.name}", where=str(rebase.root))
    if repository.differences(head, made):
        rebase.done("merged", made)
    else:
        rebase.done("already there", head)
    return True


def _take_resolution(rebase: _Rebase) -> None:
    repository, progress = rebase.repository, rebase.progress
    now = repository.resolve("HEAD") or ""
    if repository.unfinished() is None and now == progress.head:
        hint = "leave the patch out with --skip, or give the rebase up with --abort"
        raise InputErrors.one(f"nothing was made of {progress.stopped}", where=str(rebase.root), hint=hint)
    if repository.unfinished() is not None:
        _require_resolved(rebase)
        repository.git("add", "--update", "--", ".")
        tree = repository.git("write-tree").decode().strip()
        if not repository.differences(progress.head, tree):
            rebase.done("skipped", progress.head)
            return
        repository.git("cherry-pick", "--continue")
        now = repository.resolve("HEAD") or ""
    elif repository.dirty():
        hint = "commit them, or take them back"
        raise InputErrors.one("there are changes that are not committed", where=str(rebase.root), hint=hint)
    rebase.done("resolved", now)


def _require_resolved(rebase: _Rebase) -> None:
    """Refuse files that still have the marks of a conflict."""
    before = Files(rebase.repository, rebase.progress.head)
    marked: list[str] = []
    for path in unmerged(rebase.repository, rebase.progress.stopped).paths:
        file = rebase.root / os.fsdecode(path)
        if file.is_symlink() or not file.is_file():
            continue
        state = before.read(path)
        own = state.contents if isinstance(state, FileState) else b""
        for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
            if line.startswith((_OPENING, _CLOSING)) and line not in own.split(b"\n"):
                marked.append(f"{escape(path)}: line {number}")
    if marked:
        hint = "resolve it in the file, then --continue"
        raise InputErrors.one(
            f"{rebase.progress.stopped} is still in conflict", where=str(rebase.root), detail=marked, hint=hint
        )


def _finish(rebase: _Rebase, series: SeriesFiles) -> Rebased:
    progress, repository = rebase.progress, rebase.repository
    originals = {name: (series.files[name], patch) for name, patch in rebase.patches.items()}
    maker = SeriesMaker(originals=originals)
    commits = repository.commits(progress.base, progress.head)
    for step in walk(repository, Files(repository, progress.base), commits):
        maker.take(step.commit.message, step.commit.author, step.changes, step.read)
    files = maker.files(series.files)
    rebase.save(next_series=str(files_digest(files)))
    publish(series, files)
    discard(rebase.root)
    return Rebased(root=rebase.root, outcomes=progress.done)
