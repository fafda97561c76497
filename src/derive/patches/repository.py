# SPDX-License-Identifier: Apache-2.0
"""A repository of git in a work tree of ours, in which no byte of a file is ever converted.

Edge: git as a subprocess, the file system.

Attributes, filters and line endings that the source itself declares are switched off in ``info/attributes``, which
stands above every other file; a person's own settings do not count for what is decided here. Objects are read and
written, never a checkout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from derive.canonical import EPOCH
from derive.errors import DeriveError, HostRefuses
from derive.patches.model import FileState, State
from derive.patches.render import quoted
from derive.trees.listing import DIRECTORY, Symlink

BRANCH = "refs/heads/series"

_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogAllRefUpdates = true
\tsymlinks = true
\tautocrlf = false
\tsafecrlf = false
\tprecomposeUnicode = false
\tprotectNTFS = false
\tprotectHFS = false
\tattributesFile = /dev/null
\tcompression = 1
[commit]
\tgpgSign = false
[gc]
\tauto = 0
[merge]
\tconflictStyle = diff3
\trenameLimit = 7000
"""
_ATTRIBUTES = "* -text !eol !ident !filter !working-tree-encoding !diff !merge !conflict-marker-size !whitespace\n"
_MODES = {"100644": False, "100755": True}
_UNFINISHED = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "sequencer": "a sequence of picks",
}

Person: TypeAlias = tuple[bytes, bytes]
"""Name and address."""

OURS: Person = (b"derive", b"derive")


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a commit: its mode as git writes it, and the id of its object."""

    mode: str
    object: str


Differences: TypeAlias = Mapping[bytes, tuple[Entry | None, Entry | None]]
"""What is at a path before and after; None where nothing is."""

_DIFF = ("diff-tree", "-r", "-z", "--no-renames", "--no-abbrev")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit as read; ``author`` with name, address and seconds."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: Person
    time_s: int
    message: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCommit:
    """A commit to write: what changes from the one before it (None: the path goes), whose it is, what it says."""

    changes: Mapping[bytes, FileState | Symlink | None]
    author: Person
    message: bytes


class Repository:
    """The repository of one work tree. Every call runs git to its end."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / ".git"

    def git(
        self,
        *arguments: str,
        given: bytes = b"",
        codes: Sequence[int] = (0,),
        index: Path | None = None,
        user: bool = False,
    ) -> bytes:
        """Run git and return its standard output; ``user``: with the person's own settings, for what they ignore.

        Raises:
            HostRefuses: when there is no git.
            DeriveError: when it ends otherwise than in ``codes``, with what it said.
        """
        return self.run(arguments, given=given, codes=codes, index=index, user=user).stdout

    def run(
        self,
        arguments: Sequence[str],
        *,
        given: bytes = b"",
        codes: Sequence[int] = (0,),
        index: Path | None = None,
        user: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git as :meth:`git` does, and return how it ended."""
        environment = _environment(user=user)
        environment |= {"GIT_DIR": str(self.folder), "GIT_WORK_TREE": str(self.root)}
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        command = ["git", "-c", "core.quotePath=false", *arguments]
        try:
            done = subprocess.run(
                command, cwd=self.root, env=environment, input=given, capture_output=True, check=False
            )
        except FileNotFoundError as error:
            if not self.root.is_dir():
                raise
            raise HostRefuses(
                "git is not installed", hint="install it: work trees of patches are made with it"
            ) from error
        if done.returncode not in codes:
            said = (done.stderr or done.stdout).decode("utf-8", "backslashreplace").strip().split("\n")
            raise DeriveError(f"git {arguments[0]} failed", where=str(self.root), detail=said[-10:])
        return done

    def create(self) -> None:
        """Make the repository in the folder, which must be there and empty."""
        self.git("init", "--quiet", "--template=", "--initial-branch=series", str(self.root))
        (self.folder / "config").write_text(_CONFIG)
        (self.folder / "info").mkdir(exist_ok=True)
        (self.folder / "info" / "attributes").write_text(_ATTRIBUTES)

    def unfinished(self) -> str | None:
        """Return what a person began with git and did not end, or None."""
        return next((what for name, what in _UNFINISHED.items() if (self.folder / name).exists()), None)

    def resolve(self, name: str) -> str | None:
        """Return the id of the commit that a name stands for, None where there is none."""
        done = self.run(("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"), codes=(0, 1, 128))
        return done.stdout.decode().strip() or None

    def commits(self, base: str, tip: str) -> list[Commit]:
        """Return the commits after ``base`` up to ``tip``, oldest first."""
        ids = self.git("rev-list", "--topo-order", "--reverse", f"{base}..{tip}").decode().split()
        objects = self.objects(ids)
        return [_commit(one, objects[one]) for one in ids]

    def snapshot(self, commit: str) -> dict[bytes, Entry]:
        """Return every path of a commit or tree, folders left out."""
        found: dict[bytes, Entry] = {}
        for row in self.git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
            facts, _, path = row.partition(b"\t")
            mode, _, name = facts.decode().split(" ")
            found[path] = Entry(mode, name)
        return found

    def differences(self, old: str, new: str) -> Differences:
        """Return the paths that differ between two commits or trees."""
        data = self.git(*_DIFF, "--no-commit-id", old, new)
        return _differences(data, new).get(new, {})

    def differences_along(self, commits: Sequence[Commit]) -> list[Differences]:
        """Return, for each commit, the paths in which it differs from its one parent."""
        data = self.git(*_DIFF, "--stdin", given="".join(f"{one.id}\n" for one in commits).encode())
        found = _differences(data, "")
        return [found.get(one.id, {}) for one in commits]

    def objects(self, ids: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of objects by their ids."""
        wanted = list(dict.fromkeys(ids))
        if not wanted:
            return {}
        data = self.git("cat-file", "--batch", given="".join(f"{one}\n" for one in wanted).encode())
        found: dict[str, bytes] = {}
        at = 0
        for one in wanted:
            end = data.index(b"\n", at)
            size = int(data[at:end].rsplit(b" ", 1)[1])
            found[one] = data[end + 1 : end + 1 + size]
            at = end + 2 + size
        return found

    def import_commits(self, parent: str | None, commits: Sequence[NewCommit]) -> list[str]:
        """Write commits, each upon the one before it, and return their ids. Nothing is checked out, no branch moves."""
        if not commits:
            return []
        pieces = [b"reset refs/derive/import\n" + (f"from {parent}\n".encode() if parent else b"") + b"\n"]
        for mark, commit in enumerate(commits, 1):
            pieces += _import_rows(mark, commit)
        pieces += [b"get-mark :%d\n" % mark for mark in range(1, len(commits) + 1)]
        # Without deltas: a wheel's native libraries, hundreds of megabytes each, gain nothing from them but time.
        options = ("--quiet", "--force", "--done", "--depth=0")
        data = self.git("fast-import", *options, given=b"".join([*pieces, b"done\n"]))
        return data.decode().split()

    def set_ref(self, name: str, commit: str) -> None:
        """Point a reference at a commit, and note it in its log."""
        self.git("update-ref", "-m", "derive patches", "--create-reflog", name, commit)

    def check_out(self, commit: str) -> None:
        """Make branch, index and files those of a commit, whatever they were; files that nothing tracks stay."""
        self.set_ref(BRANCH, commit)
        self.git("symbolic-ref", "HEAD", BRANCH)
        self.git("read-tree", "-u", "--reset", commit)

    def move_to(self, commit: str) -> None:
        """Make branch, index and files those of a commit, from the ones of the last; nothing untracked is overwritten.

        Raises:
            DeriveError: when something untracked is in the way; nothing has moved.
        """
        self.git("read-tree", "-m", "-u", "HEAD", commit)
        self.set_ref(BRANCH, commit)
        self.git("symbolic-ref", "HEAD", BRANCH)

    def move_branch(self, commit: str) -> None:
        """Point branch and index at a commit whose files are those that lie in the work tree."""
        self.git("read-tree", commit)
        self.git("update-index", "-q", "--refresh", codes=(0, 1))
        self.set_ref(BRANCH, commit)
        self.git("symbolic-ref", "HEAD", BRANCH)

    def dirty(self) -> list[bytes]:
        """Return the paths that differ from the last commit, and new ones that the person does not ignore."""
        rows = self.git(
            "status",
            "--porcelain=v1",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            "--ignore-submodules=none",
            user=True,
        )
        return [row[3:] for row in rows.split(b"\0") if row]

    def worked_tree(self) -> str:
        """Return the tree of the files as they lie in the work tree, by way of an index of its own."""
        index = self.folder / "derive-index"
        try:
            # With its time, by which git knows the files whose time of change says nothing: those changed as it was.
            shutil.copy2(self.folder / "index", index)
            self.git("add", "--all", "--", ".", index=index, user=True)
            return self.git("write-tree", index=index).decode().strip()
        finally:
            index.unlink(missing_ok=True)


def state_of(entry: Entry | None, objects: Mapping[str, bytes]) -> State:
    """Return what a path of a snapshot is; a submodule, of which git knows a commit alone, counts as a folder."""
    if entry is None:
        return None
    if entry.mode == "160000":
        return DIRECTORY
    contents = objects[entry.object]
    if entry.mode == "120000":
        return Symlink(contents)
    return FileState(contents=contents, executable=_MODES[entry.mode])


def _differences(data: bytes, commit: str) -> dict[str, dict[bytes, tuple[Entry | None, Entry | None]]]:
    """Read what diff-tree prints; ``commit`` is the one that is spoken of until another is named."""
    found: dict[str, dict[bytes, tuple[Entry | None, Entry | None]]] = {}
    rows = iter(data.split(b"\0")[:-1])
    for row in rows:
        if not row.startswith(b":"):
            commit = row.decode()
            continue
        before, after, one, other, _ = row.decode().removeprefix(":").split(" ")
        found.setdefault(commit, {})[next(rows)] = (_entry(before, one), _entry(after, other))
    return found


def _entry(mode: str, name: str) -> Entry | None:
    return None if mode == "000000" else Entry(mode, name)


def _environment(*, user: bool) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or (user and "CONFIG" in key)}
    kept |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_EDITOR": "true"}
    if not user:
        kept |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    for role in ("AUTHOR", "COMMITTER"):
        kept |= {f"GIT_{role}_NAME": "derive", f"GIT_{role}_EMAIL": "derive", f"GIT_{role}_DATE": f"{EPOCH} +0000"}
    return kept


def _commit(name: str, data: bytes) -> Commit:
    head, _, message = data.partition(b"\n\n")
    rows = [row.partition(b" ")[::2] for row in head.split(b"\n")]
    author = next(value for key, value in rows if key == b"author")
    person, _, rest = author.rpartition(b"> ")
    who, _, address = person.partition(b" <")
    return Commit(
        id=name,
        tree=next(value.decode() for key, value in rows if key == b"tree"),
        parents=tuple(value.decode() for key, value in rows if key == b"parent"),
        author=(who, address),
        time_s=int(rest.split(b" ")[0]),
        message=message,
    )


def _import_rows(mark: int, commit: NewCommit) -> list[bytes]:
    rows = [b"commit refs/derive/import\nmark :%d\n" % mark]
    rows += [
        b"%s %s <%s> %d +0000\n" % (role, *who, EPOCH)
        for role, who in ((b"author", commit.author), (b"committer", OURS))
    ]
    rows.append(b"data %d\n%s\n" % (len(commit.message), commit.message))
    for path, state in sorted(commit.changes.items(), key=lambda item: item[1] is not None):
        if state is None:
            rows.append(b"D %s\n" % quoted(path))
            continue
        mode, contents = _written(state)
        rows.append(b"M %s inline %s\ndata %d\n" % (mode, quoted(path), len(contents)))
        rows += [contents, b"\n"]
    return rows


def _written(state: FileState | Symlink) -> tuple[bytes, bytes]:
    if isinstance(state, Symlink):
        return b"120000", state.target
    return b"100755" if state.executable else b"100644", state.contents
