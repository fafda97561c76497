# SPDX-License-Identifier: Apache-2.0
"""Records against git: what a commit once had in a folder that is only added to is there still, with the same bytes.

Edge: git as a subprocess, which only reads; the files of those folders.

A chain that was rewritten from some record on, to its end, is sound in itself. What was committed says that it is
another: a record, once in a commit, is never other or gone, wherever it lies.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from derive.doctor.git_facts import GitRefused, git
from derive.errors import InputErrors, Problem, expected_got
from derive.infile import read_plain
from derive.records.chain import FOLDER, Chain, place
from derive.records.model import Record, RecordError, read_record
from derive.words import unreadable

HELD = (FOLDER, "records/keys", "records/certificates", "records/audits", "records/derivability")
"""Folders that are only added to. Reports beside them may be measured anew: what a record names has its digest."""

_NUMBERED = re.compile(r"([0-9]{4})-.+\.json")
_LARGEST = 64 << 20
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
    """A file as a commit has it: its path below the project, and the id of its bytes."""

    path: str
    blob: str
    commit: str


def against_git(
    root: Path,
    files: Mapping[str, bytes],
    chain: Chain,
    since: str | None = None,
    folders: Sequence[str] = HELD,
) -> History:
    """Hold records against every commit that this one follows; ``since``: against that one and later.

    ``files`` are those of the chain of releases, as they were read; those of the other ``folders`` are read here.

    Raises:
        InputErrors: when there is no commit of the name ``since``.
    """
    try:
        start = None if since is None else _commit(root, since)
        had = list(_had(root, start, folders))
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


def branch_files(root: Path, branch: str) -> dict[str, bytes] | None:
    """Return the records of releases that a remote's branch, such as ``origin/main``, has, by their files' names.

    None where git cannot say, as for :func:`is_published`.
    """
    try:
        listed = git(root, "ls-tree", "-z", f"refs/remotes/{branch}", "--", f"{FOLDER}/").decode("utf-8", "replace")
        rows = [row.partition("\t") for row in listed.split("\0")[:-1]]
        named = {path.removeprefix(f"{FOLDER}/"): about.split(" ") for about, _, path in rows}
        blobs = {name: about[2] for name, about in named.items() if about[1] == "blob" and _NUMBERED.fullmatch(name)}
        printed = git(root, "cat-file", "--batch", given="".join(f"{one}\n" for one in blobs.values()).encode())
    except GitRefused:
        return None
    found, at = {}, 0
    for name in blobs:
        start = printed.index(b"\n", at) + 1
        size = int(printed[at:start].split(b" ")[2])
        found[name], at = printed[start : start + size], start + size + 1
    return found


def _had(root: Path, start: str | None, folders: Sequence[str]) -> Iterator[_Had]:
    """Yield every file of some folders that a commit brought or changed, earliest first."""
    if start is not None:
        below = [f"{folder}/" for folder in folders]
        listed = git(root, "ls-tree", "-r", "-z", start, "--", *below).decode("utf-8", "replace")
        for row in listed.split("\0")[:-1]:
            about, _, path = row.partition("\t")
            yield _Had(path, about.split(" ")[2], start)
    span = "HEAD" if start is None else f"{start}..HEAD"
    shown = ("--reverse", "-m", "--raw", "--no-renames", "--no-abbrev", "--relative", "-z")
    # A mark that no path has stands before each commit.
    printed = git(root, "log", *shown, "--format=%x01%H", span, "--", *folders).decode("utf-8", "replace")
    for part in printed.split("\x01")[1:]:
        commit, _, rest = part.partition("\0")
        cells = [cell for cell in rest.replace("\n", "").split("\0") if cell]
        for about, path in zip(cells[::2], cells[1::2], strict=False):
            blob = about.split(" ")[3]
            if set(blob) != _ZERO:
                yield _Had(path, blob, commit.strip())


def _problems(root: Path, had: list[_Had], files: Mapping[str, bytes], chain: Chain) -> Iterator[Problem]:
    told: set[str] = set()
    for one in had:
        if one.path in told:
            continue
        try:
            data = _bytes(root, one.path, files)
        except OSError as error:
            told.add(one.path)
            if not one.path.startswith(f"{FOLDER}/"):  # those of releases are told where they are read
                yield Problem(where=one.path, message=unreadable(error), hint=_back(one))
            continue
        if data is not None and _blob_id(data, one.blob) == one.blob:
            continue
        told.add(one.path)
        if _is_moved(root, one, chain):
            continue
        if data is None:
            yield Problem(where=one.path, message=f"gone, and commit {one.commit[:12]} has it", hint=_back(one))
        else:
            detail = expected_got(f"blob {one.blob}", f"blob {_blob_id(data, one.blob)}")
            message = f"other than commit {one.commit[:12]} has it"
            yield Problem(where=one.path, message=message, detail=detail, hint=_back(one))


def _back(one: _Had) -> str:
    return f"bring it back: git show {one.commit[:12]}:./{one.path}"


def _bytes(root: Path, path: str, files: Mapping[str, bytes]) -> bytes | None:
    """Return what a file has now, None where nothing has its name; raises OSError for what is no ordinary file."""
    below = path.removeprefix(f"{FOLDER}/")
    if below in files and below != path:
        return files[below]
    if not os.path.lexists(root / path):
        return None
    return read_plain(root / path, _LARGEST, follow=False)[0]


def _is_moved(root: Path, one: _Had, chain: Chain) -> bool:
    """Say whether a record stands under another number now, saying the same: two branches had taken one number."""
    folder, _, name = one.path.rpartition("/")
    number = _NUMBERED.fullmatch(name)
    if number is None or folder not in HELD:
        return False
    try:
        before = read_record(git(root, "cat-file", "blob", one.blob))
    except RecordError:
        return False
    there = ((entry.file, entry.record) for entry in chain.entries) if folder == FOLDER else _numbered(root / folder)
    return any(
        other[:4] > number[1]
        and (record.kind, record.subject, record.body) == (before.kind, before.subject, before.body)
        for other, record in there
    )


def _numbered(folder: Path) -> Iterator[tuple[str, Record]]:
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names alone
            if _NUMBERED.fullmatch(name):
                with suppress(OSError, RecordError):
                    yield name, read_record(read_plain(folder / name, _LARGEST, follow=False)[0])


def _blob_id(data: bytes, like: str) -> str:
    """Return git's id of some bytes, by the hash that another id has."""
    hasher = hashlib.sha1(usedforsecurity=False) if len(like) == 40 else hashlib.sha256()
    hasher.update(b"blob %d\0" % len(data))
    hasher.update(data)
    return hasher.hexdigest()
