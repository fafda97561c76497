# SPDX-License-Identifier: Apache-2.0
"""The chain against git: what a commit once had in ``records/releases/`` is there still, with the same bytes.

Edge: git as a subprocess, which only reads.

A chain that was rewritten from some record on, to its end, is sound in itself. What was committed says that it is
another: a record, once in a commit, is never other or gone, wherever it lies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from derive.doctor.git_facts import GitRefused, git
from derive.errors import InputErrors, Problem, expected_got
from derive.records.chain import FOLDER, Chain, place, read_chain

_ZERO = set("0")


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What git says: how many commits were looked at, what is wrong, and why nothing was said where git refused.

    ``is_partial``: the repository has only the latest part of its history.
    """

    commits: int
    problems: tuple[Problem, ...]
    refused: str | None = None
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class _Had:
    """A file as a commit has it: its path below ``records/releases/``, and the id of its bytes."""

    path: str
    blob: str
    commit: str


def against_git(root: Path, files: Mapping[str, bytes], chain: Chain, since: str | None = None) -> History:
    """Hold the files of a chain against every commit that this one follows; ``since``: against that one and later.

    Raises:
        InputErrors: when there is no commit of the name ``since``.
    """
    try:
        start = None if since is None else _commit(root, since)
        had = list(_had(root, start))
        commits = git(root, "rev-list", "--count", "HEAD" if start is None else f"{start}..HEAD").decode().strip()
        problems = tuple(_problems(root, had, files, chain))
        is_partial = git(root, "rev-parse", "--is-shallow-repository").strip() == b"true"
    except GitRefused as refused:
        return History(commits=0, problems=(), refused=str(refused))
    return History(commits=int(commits), problems=problems, is_partial=is_partial)


def commit_of(root: Path, folders: tuple[str, ...]) -> tuple[str | None, bool]:
    """Return the commit that is checked out, None without git, and whether files below these paths differ from it."""
    try:
        commit = git(root, "rev-parse", "--verify", "HEAD^{commit}").decode().strip()
        changed = git(root, "status", "--porcelain", "-z", "--untracked-files=all", "--", *folders)
    except GitRefused:
        return None, False
    return commit, bool(changed)


def is_published(root: Path, file: str, branch: str) -> bool | None:
    """Say whether a remote's branch, such as ``origin/main``, has a file of the chain as it is here.

    None where git cannot say: there is no repository, or no such branch was fetched.
    """
    path = root / FOLDER / file
    try:
        listed = git(root, "ls-tree", "-z", f"refs/remotes/{branch}", "--", place(file)).decode()
        data = path.read_bytes()
    except (GitRefused, OSError):
        return None
    blob = listed.split("\t")[0].split(" ")[-1]
    return bool(blob) and _blob_id(data, blob) == blob


def _commit(root: Path, name: str) -> str:
    try:
        return git(root, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}").decode().strip()
    except GitRefused as refused:
        raise InputErrors.one(f"git knows no commit {name!r}", detail=[f"said      {refused}"]) from refused


def _had(root: Path, start: str | None) -> Iterator[_Had]:
    """Yield every file of the chain that a commit brought or changed, earliest first."""
    if start is not None:
        listed = git(root, "ls-tree", "-r", "-z", start, "--", f"{FOLDER}/").decode("utf-8", "replace")
        for row in listed.split("\0")[:-1]:
            about, _, path = row.partition("\t")
            yield _Had(path.removeprefix(f"{FOLDER}/"), about.split(" ")[2], start)
    span = "HEAD" if start is None else f"{start}..HEAD"
    shown = ("--reverse", "-m", "--raw", "--no-renames", "--no-abbrev", "--relative", "-z")
    # A mark that no path has stands before each commit.
    printed = git(root, "log", *shown, "--format=%x01%H", span, "--", FOLDER).decode("utf-8", "replace")
    for part in printed.split("\x01")[1:]:
        commit, _, rest = part.partition("\0")
        cells = [cell for cell in rest.replace("\n", "").split("\0") if cell]
        for about, path in zip(cells[::2], cells[1::2], strict=False):
            blob = about.split(" ")[3]
            if set(blob) != _ZERO:
                yield _Had(path.removeprefix(f"{FOLDER}/"), blob, commit.strip())


def _problems(root: Path, had: list[_Had], files: Mapping[str, bytes], chain: Chain) -> Iterator[Problem]:
    told: set[str] = set()
    for one in had:
        if one.path in told:
            continue
        data = files.get(one.path)
        if data is not None and _blob_id(data, one.blob) == one.blob:
            continue
        told.add(one.path)
        if _is_moved(root, one, chain):
            continue
        hint = f"bring it back: git show {one.commit[:12]}:./{place(one.path)}"
        if data is None:
            yield Problem(where=place(one.path), message=f"gone, and commit {one.commit[:12]} has it", hint=hint)
        else:
            detail = expected_got(f"blob {one.blob}", f"blob {_blob_id(data, one.blob)}")
            message = f"other than commit {one.commit[:12]} has it"
            yield Problem(where=place(one.path), message=message, detail=detail, hint=hint)


def _is_moved(root: Path, one: _Had, chain: Chain) -> bool:
    """Say whether a record stands under another number now, saying the same: two branches had taken one number."""
    if "/" in one.path:
        return False
    before = read_chain({one.path: git(root, "cat-file", "blob", one.blob)}).entries
    return bool(before) and any(
        entry.number > before[0].number
        and (entry.record.kind, entry.record.subject, entry.record.body)
        == (before[0].record.kind, before[0].record.subject, before[0].record.body)
        for entry in chain.entries
    )


def _blob_id(data: bytes, like: str) -> str:
    """Return git's id of some bytes, by the hash that another id has."""
    hasher = hashlib.sha1(usedforsecurity=False) if len(like) == 40 else hashlib.sha256()
    hasher.update(b"blob %d\0" % len(data))
    hasher.update(data)
    return hasher.hexdigest()
