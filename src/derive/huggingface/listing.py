# SPDX-License-Identifier: Apache-2.0
"""What a hub says of a revision: its commit, and its files with the hashes that it keeps of them.

Core: no IO.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from urllib.parse import quote

from derive.canonical import Digest, escape
from derive.errors import Corrupt, expected_got
from derive.huggingface.model import HfFile, Kind, is_revision
from derive.trees.listing import ListingError, check_path, parents

_API: Mapping[Kind, str] = {"model": "models", "dataset": "datasets"}
_FOLDER: Mapping[Kind, str] = {"model": "", "dataset": "datasets/"}
_LARGEST = 2**53


def revision_url(endpoint: str, kind: Kind, repository: str, revision: str) -> str:
    """Return where a hub says which commit a branch, a tag or a commit is."""
    return f"{endpoint}/api/{_API[kind]}/{repository}/revision/{quote(revision, safe='')}"


def tree_url(endpoint: str, kind: Kind, repository: str, commit: str) -> str:
    """Return the first page of a commit's files."""
    return f"{endpoint}/api/{_API[kind]}/{repository}/tree/{commit}?recursive=true&expand=false"


def file_url(endpoint: str, kind: Kind, repository: str, commit: str, path: str) -> str:
    """Return where a file's contents are served."""
    return f"{endpoint}/{_FOLDER[kind]}{repository}/resolve/{commit}/{quote(path, safe='/')}"


def parse_commit(data: bytes, *, where: str) -> str:
    """Read which commit a revision is; raises Corrupt when the answer does not say."""
    document = _load(data, where)
    commit = document.get("sha") if isinstance(document, Mapping) else None
    if not isinstance(commit, str) or not is_revision(commit):
        raise Corrupt("the hub does not say which commit a revision is", where=where)
    return commit


def parse_page(data: bytes, *, where: str) -> tuple[HfFile, ...]:
    """Read one page of a commit's files; folders are left out.

    Raises:
        Corrupt: when it is no such page, names what no tree holds, or a large file's hash is not the one committed.
    """
    document = _load(data, where)
    if not isinstance(document, list):
        raise Corrupt("not a list of files", where=where)
    found = []
    for index, entry in enumerate(document):
        place = f"{where}[{index}]"
        if not isinstance(entry, Mapping):
            raise Corrupt("not a file's entry", where=place)
        match entry.get("type"):
            case "file":
                found.append(_file(entry, place))
            case "directory":
                continue
            case other:
                raise Corrupt(f"neither a file nor a folder: {other!r}", where=place)
    return tuple(found)


def all_files(files: Iterable[HfFile], *, where: str) -> tuple[HfFile, ...]:
    """Return the files of all pages, sorted by the bytes of their paths.

    Raises:
        Corrupt: when a path is given twice, or lies below a file.
    """
    ordered = sorted(files, key=lambda file: file.path.encode())
    paths = [file.path.encode() for file in ordered]
    known = set(paths)
    for path, after in pairwise(paths):
        if path == after:
            raise Corrupt(f"the same path twice: {escape(path)}", where=where)
    for path in paths:
        if above := next((parent for parent in parents(path) if parent in known), None):
            raise Corrupt(f"{escape(path)} lies below {escape(above)}, which is a file", where=where)
    return tuple(ordered)


def pointer(sha256: Digest, size: int) -> bytes:
    """Return the Git LFS pointer that stands in a repository for a large file, as every client writes it."""
    return f"version https://git-lfs.github.com/spec/v1\noid {sha256}\nsize {size}\n".encode("ascii")


def blob_id(data: bytes) -> str:
    """Return the id that git gives a blob."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def check_contents(file: HfFile, data: bytes, *, where: str) -> None:
    """Refuse contents that are not what is committed; raises Corrupt."""
    if len(data) != file.size:
        detail = expected_got(f"{file.size} bytes", f"{len(data)} bytes")
        raise Corrupt("a file of another size than the commit states", where=where, detail=detail)
    if file.blob_id is not None and blob_id(data) != file.blob_id:
        detail = expected_got(f"git blob {file.blob_id}", f"git blob {blob_id(data)}")
        raise Corrupt("not the file that is committed", where=where, detail=detail)


def _file(entry: Mapping[str, object], where: str) -> HfFile:
    path, committed = entry.get("path"), entry.get("oid")
    if not isinstance(path, str) or not path:
        raise Corrupt("a file without a path", where=where)
    try:
        check_path(path.encode())
    except (ListingError, UnicodeEncodeError) as error:
        raise Corrupt(f"a file with an illegal path: {path!r}", where=where) from error
    shown = escape(path.encode())
    if not isinstance(committed, str) or not is_revision(committed):
        raise Corrupt(f"{shown}: not a git blob's id: {committed!r}", where=where)
    lfs = entry.get("lfs")
    if lfs is None:
        return HfFile(path=path, size=_size(entry, shown, where), sha256=None, blob_id=committed)
    if not isinstance(lfs, Mapping):
        raise Corrupt(f"{shown}: its large-file entry cannot be read", where=where)
    size = _size(lfs, shown, where)
    try:
        digest = Digest(str(lfs.get("oid")))
    except ValueError as error:
        raise Corrupt(f"{shown}: {error}", where=where) from error
    _check_pointer(shown, digest, size, committed, lfs.get("pointerSize"), where)
    return HfFile(path=path, size=size, sha256=digest, blob_id=committed)


def _check_pointer(shown: str, digest: Digest, size: int, committed: str, stated: object, where: str) -> None:
    """Compare with the commit, whose blob holds hash and size; a pointer of another form cannot be compared."""
    text = pointer(digest, size)
    if stated in (None, len(text)) and blob_id(text) != committed:
        detail = expected_got(f"git blob {committed}", f"git blob {blob_id(text)}")
        raise Corrupt(f"{shown}: the hub states another hash or size than the commit", where=where, detail=detail)


def _size(entry: Mapping[str, object], shown: str, where: str) -> int:
    size = entry.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < _LARGEST:
        raise Corrupt(f"{shown}: not a size: {size!r}", where=where)
    return size


def _load(data: bytes, where: str) -> object:
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"not readable as JSON: {error}", where=where) from error
