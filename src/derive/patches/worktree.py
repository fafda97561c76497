# SPDX-License-Identifier: Apache-2.0
"""A work tree: the source as a first commit, each patch of a series as one more, to be changed with plain git.

Edge: the file system, git.

What derive knows of it lies in its git folder, and is written before anything that depends on it moves: a tree whose
owner was killed is as it was before, or as it should have become.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from derive.errors import HostRefuses, InputErrors
from derive.patches.apply import States, try_patch
from derive.patches.message import author_of, message_of, read_message
from derive.patches.model import FileState, Patch, State, path_fault
from derive.patches.repository import OURS, Commit, NewCommit, Repository
from derive.patches.trail import Files, paths_read
from derive.store.protocol import Store, read_all
from derive.trees.listing import Entry, File, Listing, Symlink
from derive.trees.materialise import remove_folder

WHOLE = "refs/derive/series"
"""The series as it was last read or written, whole, whatever is checked out."""

_STATE = "derive.json"
_FORMAT = "patches-tree/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeState:
    """What a work tree is of. ``series`` is the digest of the project's files as they were last read or written.

    ``next_series`` is set while they are being written. ``waiting`` are patches above those that are checked out.
    """

    upstream: str
    source: str
    base: str
    series: str
    next_series: str = ""
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTree:
    """An open work tree."""

    root: Path
    repository: Repository
    state: TreeState

    def save(self, **changes: object) -> WorkTree:
        """Write the state with some facts changed, and return the tree as it is then."""
        state = replace(self.state, **changes)  # type: ignore[arg-type]
        write_state(self.repository.folder / _STATE, {"derive": _FORMAT, **asdict(state)})
        return replace(self, state=state)

    @property
    def head(self) -> str:
        """The commit that is checked out."""
        return self.repository.resolve("HEAD") or ""

    def commits(self, tip: str = "HEAD") -> list[Commit]:
        """Return the commits above the source, oldest first: one line without merges.

        Raises:
            InputErrors: when it is anything else.
        """
        found = self.repository.commits(self.state.base, tip)
        below = self.state.base
        for commit in found:
            if commit.parents != (below,):
                hint = f"make one line of commits above {self.state.base[:12]}, which is the source: git rebase"
                raise InputErrors.one(
                    f"the commit {commit.id[:12]} does not follow the one before it", where=str(self.root), hint=hint
                )
            below = commit.id
        if not found and self.repository.resolve(tip) != self.state.base:
            hint = f"git -C {self.root} reset --hard {WHOLE}"
            raise InputErrors.one("the source is not below what is checked out", where=str(self.root), hint=hint)
        return found

    def whole(self) -> dict[str, Commit]:
        """Return the commits of the series as last read or written, by the names of their patches."""
        return {read_message(commit.message).names[0]: commit for commit in self.commits(WHOLE)}

    def waiting(self, applied: Sequence[Commit]) -> tuple[str, ...]:
        """Return the patches that wait above those that are checked out."""
        here = {name for commit in applied for name in read_message(commit.message).names}
        return tuple(name for name in self.state.waiting if name not in here)

    def unsaved(self) -> str | None:
        """Say what is in the tree and not in the series that it was made from, or None."""
        unfinished = self.repository.unfinished()
        if unfinished is not None:
            return f"{unfinished} that is not finished"
        dirty = self.repository.dirty()
        if dirty:
            return "changes that are not committed"
        whole = [commit.id for commit in self.commits(WHOLE)]
        applied = [commit.id for commit in self.repository.commits(self.state.base, "HEAD")]
        if applied != whole[: len(applied)]:
            return "commits that are not in the series"
        if len(applied) + len(self.state.waiting) < len(whole):
            return "commits dropped that the series still has"
        return None


def default_tree(root: Path, upstream: str) -> Path:
    """Return where the work tree of an upstream lies in a project."""
    return root / ".cache" / "patches" / upstream


def open_tree(root: Path) -> WorkTree | None:
    """Open a work tree; None when nothing is there.

    Raises:
        InputErrors: when something else is there.
    """
    try:
        document = json.loads((root / ".git" / _STATE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            hint = "name another folder with --tree, or remove it"
            raise InputErrors.one("not a work tree of patches", where=str(root), hint=hint) from None
        return None
    if document.pop("derive", None) != _FORMAT:
        hint = "remove the folder, once what it holds is elsewhere"
        raise InputErrors.one("a work tree of another derive", where=str(root), hint=hint)
    document["waiting"] = tuple(document["waiting"])
    return WorkTree(root=root, repository=Repository(root), state=TreeState(**document))


def require_tree(root: Path, upstream: str) -> WorkTree:
    """Open a work tree that must be there, and be of this upstream; raises InputErrors."""
    tree = open_tree(root)
    if tree is None:
        hint = f"make it: derive patches edit {upstream}"
        raise InputErrors.one("no work tree", where=str(root), hint=hint)
    if tree.state.upstream != upstream:
        raise InputErrors.one(f"the work tree is of {tree.state.upstream}, not of {upstream}", where=str(root))
    return tree


@contextmanager
def tree_lock(root: Path) -> Iterator[Path]:
    """Hold what makes a work tree ours alone, and yield a sibling path that nothing is at, to make a new one there.

    Raises:
        HostRefuses: when another derive works on the same tree.
    """
    root.parent.mkdir(parents=True, exist_ok=True)
    if root.parent.name == "patches" and root.parent.parent.name == ".cache":
        ignore = root.parent / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
    with (root.parent / f".{root.name}.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HostRefuses("another derive works on this tree", where=str(root)) from None
        staged = root.parent / f".{root.name}.new"
        remove_folder(staged)
        remove_folder(_discarded(root))
        try:
            yield staged
        finally:
            remove_folder(staged)


def discard(root: Path) -> None:
    """Remove a work tree: gone from its place at once, or, by a process that is killed, not at all."""
    if root.exists():
        root.rename(_discarded(root))
        remove_folder(_discarded(root))


def _discarded(root: Path) -> Path:
    return root.parent / f".{root.name}.old"


def create_tree(
    staged: Path, root: Path, store: Store, source: Listing, patches: Sequence[Patch], state: TreeState
) -> WorkTree:
    """Make a work tree with the whole series checked out, and move it into place; ``state.base`` is found here.

    Raises:
        InputErrors: when the series does not apply to the source.
    """
    staged.mkdir()
    repository = Repository(staged)
    repository.create()
    base, chain = import_series(repository, store, source, patches)
    repository.set_ref("refs/derive/base", base)
    repository.set_ref(WHOLE, chain[-1] if chain else base)
    repository.check_out(chain[-1] if chain else base)
    tree = WorkTree(root=staged, repository=repository, state=state).save(base=base)
    discard(root)
    staged.rename(root)
    return WorkTree(root=root, repository=Repository(root), state=tree.state)


def import_series(
    repository: Repository, store: Store, source: Listing, patches: Sequence[Patch]
) -> tuple[str, list[str]]:
    """Write the source as a commit and each patch as one upon it, and return their ids.

    Raises:
        InputErrors: when the series does not apply to the source.
    """
    commits = [NewCommit(changes=source_files(store, source), author=OURS, message=b"The source\n")]
    states = States(lambda path: _stored(store, source.get(path)))
    for patch in patches:
        tried = try_patch(patch.operations, states.at)
        if tried.refused:
            raise InputErrors([refused.problem(patch.name) for refused in tried.refused])
        commits.append(patch_commit(patch.name, patch.header.text, tried.after))
        states.update(tried.after)
    base, *chain = repository.import_commits(None, commits)
    return base, chain


def patch_commit(name: str, header: bytes, changes: Mapping[bytes, FileState | None]) -> NewCommit:
    """Return the commit that is a patch of the series."""
    return NewCommit(changes=changes, author=author_of(header), message=message_of(name, header))


def bring_exactly(repository: Repository, head: str, patches: Sequence[Patch]) -> list[tuple[str, bool]]:
    """Put patches on a commit, up to the first that does not apply there as it is; nothing is checked out.

    Returns each one's commit, and whether a hunk of it moved.
    """
    files = Files(repository, head)
    files.fetch(paths_read(patches))
    commits: list[NewCommit] = []
    moved: list[bool] = []
    for patch in patches:
        tried = try_patch(patch.operations, files.read)
        if tried.refused:
            break
        files.write(tried.after)
        commits.append(patch_commit(patch.name, patch.header.text, tried.after))
        moved.append(any(landed.offset for landed in tried.landed))
    return list(zip(repository.import_commits(head, commits), moved, strict=True))


def source_files(store: Store, source: Listing) -> dict[bytes, FileState | Symlink | None]:
    """Return what of a tree git can hold: no empty folder, and nothing inside a folder of git's own."""
    found: dict[bytes, FileState | Symlink | None] = {}
    for path, entry in source.items():
        state = _stored(store, entry)
        if isinstance(state, FileState | Symlink) and path_fault(path) is None:
            found[path] = state
    return found


def write_state(path: Path, document: object) -> None:
    """Write a small file whole, durably."""
    staged = path.with_name(path.name + ".new")
    with staged.open("w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(path)


def _stored(store: Store, entry: Entry | None) -> State:
    if isinstance(entry, File):
        return FileState(contents=read_all(store, entry), executable=entry.executable)
    return entry
