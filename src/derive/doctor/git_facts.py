# SPDX-License-Identifier: Apache-2.0
"""What git says of a project's folder: which files it has, what in them looks like a secret, which branches there are.

Edge: git as a subprocess, the files that it has. Nothing is written.

Git's own safety is kept: a folder of another user is refused by it, and that is a fact like any other.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from derive.doctor.model import GitFacts, SecretFact, Unreadable
from derive.doctor.secrets import LARGEST, secrets_in
from derive.words import unreadable

_PATIENCE_S = 20
_LINK, _SUBMODULE = b"120000", b"160000"


class GitRefused(Exception):
    """Git did not answer; the text says why."""


def git_facts(root: Path) -> GitFacts | Unreadable:
    """Return what git says, or why it says nothing."""
    try:
        entries = _entries(git(root, "ls-files", "--stage", "-z"))
        differing = {
            os.fsdecode(name)
            for name in git(root, "diff-files", "--relative", "--name-only", "-z").split(b"\0")
            if name
        }
        branches = _branches(git(root, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes"))
        secrets: list[SecretFact] = []
        unread: list[Unreadable] = []
        for path in {path: None for path, _, _ in entries}:
            found = _secrets_of(root, path, unread)
            if found is None:
                differing.add(path)
            else:
                secrets += found
        staged: dict[bytes, list[str]] = {}
        for path, name, stage in entries:
            if path in differing or stage != b"0":
                staged.setdefault(name, []).append(path)
        known = {(one.path, one.kind) for one in secrets}
        secrets += (one for one in _staged(root, staged) if (one.path, one.kind) not in known)
    except GitRefused as refused:
        return Unreadable(where="git", reason=str(refused))
    return GitFacts(
        tracked=frozenset(os.fsencode(path).decode("utf-8", "backslashreplace") for path, _, _ in entries),
        secrets=tuple(secrets),
        unread=tuple(unread),
        branches=branches,
    )


def git(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Run a git command that only reads, in a folder, and return what it prints; raises GitRefused."""
    # Variables of git's name other repositories; a monitor of the file system would be started as a program.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | {"LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", *arguments],
            cwd=folder,
            env=environment,
            input=given,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except FileNotFoundError:
        raise GitRefused("git is not installed") from None
    except OSError as error:
        raise GitRefused(f"git cannot be run: {(error.strerror or 'unknown reason').lower()}") from None
    except subprocess.TimeoutExpired:
        raise GitRefused(f"git did not answer in {_PATIENCE_S} seconds") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise GitRefused(said[0].removeprefix("fatal: ")[:200])
    return done.stdout


def _entries(listed: bytes) -> list[tuple[str, bytes, bytes]]:
    """Return path, object and stage of each ordinary file of the index."""
    found = []
    for row in listed.split(b"\0")[:-1]:
        about, _, path = row.partition(b"\t")
        mode, name, stage = about.split(b" ")
        if mode not in (_LINK, _SUBMODULE):
            found.append((os.fsdecode(path), name, stage))
    return found


def _branches(listed: bytes) -> frozenset[str]:
    names = set()
    for name in listed.decode("utf-8", "replace").splitlines():
        kind, _, rest = name.removeprefix("refs/").partition("/")
        names.add(rest if kind == "heads" else rest.partition("/")[2])
    return frozenset(names - {"", "HEAD"})


def _secrets_of(root: Path, path: str, unread: list[Unreadable]) -> list[SecretFact] | None:
    """Return what looks like a secret in a file; None where there is no such ordinary file in the folder now."""
    try:
        # A link is followed by nobody, and a pipe waited for by nobody.
        descriptor = os.open(f"{root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if isinstance(error, PermissionError):
            unread.append(Unreadable(where=path, reason=unreadable(error)))
            return []
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        if found.st_size > LARGEST:
            return []
        return [SecretFact(path=path, line=line, kind=kind) for kind, line in secrets_in(file.read())]


def _staged(root: Path, paths: dict[bytes, list[str]]) -> Iterator[SecretFact]:
    """Yield what looks like a secret in what git would commit, given the paths of each object."""
    small = [name for name in paths if name in _small(root, paths)]
    if not small:
        return
    printed = git(root, "cat-file", "--batch", given=b"\n".join(small) + b"\n")
    at = 0
    for name in small:
        end = printed.index(b"\n", at)
        size = int(printed[at:end].split(b" ")[2])
        for kind, line in secrets_in(printed[end + 1 : end + 1 + size]):
            yield from (SecretFact(path=path, line=line, kind=kind, staged=True) for path in paths[name])
        at = end + size + 2


def _small(root: Path, names: Iterable[bytes]) -> set[bytes]:
    """Return those objects that are there and not too large."""
    wanted = b"".join(name + b"\n" for name in names)
    if not wanted:
        return set()
    rows = [row.split(b" ") for row in git(root, "cat-file", "--batch-check", given=wanted).splitlines()]
    return {row[0] for row in rows if len(row) == 3 and int(row[2]) <= LARGEST}
