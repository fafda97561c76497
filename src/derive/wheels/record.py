# SPDX-License-Identifier: Apache-2.0
"""RECORD: checked against a wheel that is to be installed, and written anew for a tree that is finished.

Core: no IO of its own; it reads and writes through the store that it is given.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from derive.archives.names import refused
from derive.canonical import escape
from derive.errors import InputErrors, Problem, expected_got
from derive.store.protocol import Store
from derive.trees.listing import DIRECTORY, Directory, Entry, File, Listing, parents
from derive.trees.pack import NewFile, add_members

SIGNATURES = ("RECORD.jws", "RECORD.p7s")
_STRONG = ("sha256", "sha384", "sha512")
_SIZE = re.compile("[0-9]{0,18}")
_SPECIAL = re.compile('[,"\r\n]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a RECORD: ``algorithm`` and ``value`` are empty where it gives no hash; ``size`` in bytes."""

    path: bytes
    algorithm: str
    value: str
    size: int | None


def parse_record(archive: str, path: bytes, data: bytes) -> tuple[Row, ...]:
    """Parse a RECORD.

    Raises:
        InputErrors: with every line that is none.
    """
    rows: list[Row] = []
    problems: list[Problem] = []
    lines = [line + "\n" for line in data.decode("utf-8", "surrogateescape").split("\n")]
    for number, fields in enumerate(_csv(archive, path, lines), start=1):
        if not fields:
            continue
        name, hashed, size = fields if len(fields) == 3 else ("", "", "")
        algorithm, equals, value = hashed.partition("=")
        if not name or bool(hashed) != bool(equals and value) or not _SIZE.fullmatch(size):
            where = f"{archive}: {escape(path)}: line {number}"
            problems.append(Problem(where=where, message="not a path, a hash and a size"))
            continue
        raw = name.encode("utf-8", "surrogateescape")
        rows.append(Row(path=raw, algorithm=algorithm, value=value, size=int(size) if size else None))
    if problems:
        raise InputErrors(problems)
    return tuple(rows)


def verify_record(archive: str, store: Store, wheel: Listing, info: bytes, rows: Iterable[Row]) -> None:
    """Refuse a wheel whose files are not exactly those of its RECORD, hash by hash.

    Raises:
        InputErrors: naming every file that differs, is absent, or is not listed.
    """
    unhashed = {info + b"/" + name.encode() for name in ("RECORD", *SIGNATURES)}
    problems: list[Problem] = []
    listed: set[bytes] = set()
    for row in rows:
        entry = wheel.get(row.path)
        if row.path in listed:
            problems.append(_problem(archive, row.path, "RECORD lists it twice"))
        elif not isinstance(entry, File):
            problems.append(_problem(archive, row.path, "RECORD lists it, and the wheel does not hold it"))
        elif row.path not in unhashed:
            problems += _check(archive, store, row, entry)
        listed.add(row.path)
    problems += [
        _problem(archive, path, "the wheel holds it, and RECORD does not list it")
        for path, _ in wheel.files()
        if path not in listed and path not in unhashed
    ]
    if problems:
        raise InputErrors(problems)


def record_of(listing: Listing, site: bytes, *, name: str) -> tuple[bytes, bytes]:
    """Return the path and the contents of the RECORD of an installed tree, for its one .dist-info below ``site``.

    Rows are sorted bytewise, hashes are SHA-256; RECORD itself is listed without one. ``name`` is what errors call
    the tree.

    Raises:
        InputErrors: when there is not exactly one .dist-info, or a path is not UTF-8.
    """
    start = site + b"/"
    tops = {path[len(start) :].partition(b"/")[0] for path in listing if path.startswith(start)}
    infos = sorted(top for top in tops if top.lower().endswith(b".dist-info"))
    if len(infos) != 1:
        shown = b", ".join(infos).decode("utf-8", "replace") or "none"
        raise refused(name, site, f"a tree to record has exactly one .dist-info folder, and this one has: {shown}")
    record = start + infos[0] + b"/RECORD"
    lines = [_line(_relative(record, site), None)]
    for path, entry in listing.items():
        if path == record or isinstance(entry, Directory):
            continue
        lines.append(_line(_relative(path, site), entry))
    try:
        text = b"".join(sorted(lines))
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refused(name, site, "a path that is not UTF-8, which no RECORD can list") from error
    return record, text


def add_record(store: Store, listing: Listing, site: bytes, *, name: str) -> Listing:
    """Return the tree with its RECORD, which replaces one that is there.

    Raises:
        InputErrors: as :func:`record_of`.
    """
    path, text = record_of(listing, site, name=name)
    entries: dict[bytes, Entry] = dict(listing)
    entries |= dict.fromkeys(parents(path), DIRECTORY)
    entries[path] = add_members(store, [(path, NewFile(executable=False, chunks=[text]))])[path]
    return Listing.of(entries)


def _csv(archive: str, path: bytes, lines: list[str]) -> Iterator[list[str]]:
    try:
        yield from csv.reader(lines, strict=True)
    except csv.Error as error:
        raise refused(archive, path, f"a RECORD that cannot be read: {error}") from error


def _check(archive: str, store: Store, row: Row, file: File) -> Iterator[Problem]:
    if row.algorithm not in _STRONG:
        said = row.algorithm or "none"
        yield _problem(archive, row.path, f"RECORD gives it no SHA-256, SHA-384 or SHA-512 (it gives {said})")
        return
    if row.size is not None and row.size != file.size:
        yield _problem(archive, row.path, "RECORD states another size", expected_got(row.size, file.size))
    got = _encoded(_digest(store, row.algorithm, file))
    if got != row.value.rstrip("="):
        detail = expected_got(f"{row.algorithm}={row.value}", f"{row.algorithm}={got}")
        yield _problem(archive, row.path, "RECORD states another hash", detail)


def _digest(store: Store, algorithm: str, file: File) -> bytes:
    if algorithm == "sha256":
        return bytes.fromhex(file.sha256.hex)
    hasher = hashlib.new(algorithm)
    for piece in store.read(file):
        hasher.update(piece)
    return hasher.digest()


def _encoded(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _problem(archive: str, path: bytes, message: str, detail: tuple[str, ...] = ()) -> Problem:
    return Problem(where=f"{archive}: {escape(path)}", message=message, detail=detail)


def _relative(path: bytes, site: bytes) -> bytes:
    """Return a path as seen from the folder ``site``, with ``..`` where it lies elsewhere."""
    here, there = site.split(b"/"), path.split(b"/")
    common = 0
    while common < min(len(here), len(there)) and here[common] == there[common]:
        common += 1
    return b"/".join([b".."] * (len(here) - common) + there[common:])


def _line(path: bytes, entry: Entry | None) -> bytes:
    name = path if not _SPECIAL.search(path.decode("latin-1")) else b'"' + path.replace(b'"', b'""') + b'"'
    if not isinstance(entry, File):
        return name + b",,\n"
    return name + f",sha256={_encoded(bytes.fromhex(entry.sha256.hex))},{entry.size}\n".encode()
