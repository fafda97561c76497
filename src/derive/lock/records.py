# SPDX-License-Identifier: Apache-2.0
"""Debian's indices and copyright files: paragraphs of ``Key: value`` lines.

Core: no IO. Written for indices of tens of megabytes: only the paragraphs asked for are taken apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Digest
from derive.lock.documents import SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryRecord:
    """A package in a Packages index. ``source`` is the name of its source package; ``size`` in bytes."""

    name: str
    version: str
    architecture: str
    locator: str
    size: int
    sha256: Digest
    source: str
    multi_arch: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """A package in a Sources index, with the files that its source tree is unpacked from."""

    name: str
    version: str
    files: tuple[SourceFile, ...]


class RecordError(ValueError):
    """A paragraph of an index without what every index has."""


def binaries(pieces: Iterable[bytes], names: Collection[str]) -> Iterator[BinaryRecord]:
    """Yield the records of the packages of those names, in the order of a Packages index."""
    for fields in _chosen(pieces, names):
        multi_arch = fields.get("multi-arch")
        try:
            yield BinaryRecord(
                name=fields["package"],
                version=fields["version"],
                architecture=fields["architecture"],
                locator=fields["filename"].removeprefix("./"),
                size=int(fields["size"]),
                sha256=Digest(fields["sha256"]),
                source=fields.get("source", fields["package"]).partition(" ")[0],
                multi_arch=None if multi_arch == "no" else multi_arch,
            )
        except (KeyError, ValueError) as error:
            raise RecordError(f"the record of {fields.get('package')} lacks {error}") from error


def sources(pieces: Iterable[bytes], names: Collection[str]) -> Iterator[SourceRecord]:
    """Yield the records of the source packages of those names, in the order of a Sources index."""
    for fields in _chosen(pieces, names):
        try:
            folder = fields["directory"].removeprefix("./")
            rows = [line.split() for line in fields["checksums-sha256"].splitlines() if line.strip()]
            files = tuple(
                SourceFile(file=name, locator=f"{folder}/{name}", size=int(size), sha256=Digest(digest))
                for digest, size, name in sorted(rows, key=lambda row: row[2])
                # The .dsc says what this signed index says, and some mirrors do not keep it.
                if not name.endswith(".dsc")
            )
            yield SourceRecord(name=fields["package"], version=fields["version"], files=files)
        except (KeyError, ValueError, IndexError) as error:
            raise RecordError(f"the record of source {fields.get('package')} lacks {error}") from error


def paragraph(text: str) -> dict[str, str]:
    """Take one paragraph apart; keys in lower case, continuation lines joined by line ends."""
    fields: dict[str, str] = {}
    key = ""
    for line in text.split("\n"):
        if line[:1] in (" ", "\t"):
            if key:
                fields[key] += "\n" + line[1:]
        elif ":" in line and not line.startswith("#"):
            key, _, value = line.partition(":")
            key = key.lower()
            fields[key] = value.strip()
    return fields


def copyright_licence(data: bytes) -> str | None:
    """Return the short names of the licences in a machine-readable copyright file; None when it is none.

    The names are those of the file's own header and file paragraphs, sorted, joined by commas.
    """
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    parts = [paragraph(part) for part in _split_paragraphs(text)]
    if not parts or "copyright-format" not in parts[0].get("format", parts[0].get("format-specification", "")):
        return None
    names = set()
    for index, fields in enumerate(parts):
        if "license" in fields and ("files" in fields or index == 0):
            name = " ".join(fields["license"].partition("\n")[0].split())
            if name and name.isprintable():
                names.add(name)
    return ", ".join(sorted(names))[:1000] or None


def _split_paragraphs(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in text.split("\n"):
        if line.strip():
            lines.append(line)
        elif lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def _chosen(pieces: Iterable[bytes], names: Collection[str]) -> Iterator[Mapping[str, str]]:
    wanted = {f"Package: {name}".encode() for name in names}
    for raw in _raw_paragraphs(pieces):
        if raw.partition(b"\n")[0] in wanted:
            yield paragraph(raw.decode("utf-8", "replace"))


def _raw_paragraphs(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n\n")
        for raw in whole:
            yield raw.lstrip(b"\n")
    if rest.strip():
        yield rest.strip(b"\n")
