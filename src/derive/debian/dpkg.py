# SPDX-License-Identifier: Apache-2.0
"""The files in which dpkg keeps what is installed, so that scanners and dpkg itself know a root's packages.

Core: no IO of its own; it reads through the store that it is given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from derive.debian.package import UnpackedDeb
from derive.store.protocol import Store, read_all
from derive.trees.listing import File
from derive.trees.pack import Member, NewFile

FOLDER = b"var/lib/dpkg"
_FORMAT = b"1\n"  # of the info folder: names carry the architecture where several may be installed


def database(store: Store, packages: Sequence[UnpackedDeb], native: str) -> Iterator[tuple[bytes, Member]]:
    """Yield dpkg's files for packages in canonical order: status, architectures, and each package's own files."""
    yield FOLDER + b"/status", text_file("".join(_status(store, package) for package in packages).encode())
    yield FOLDER + b"/info/format", text_file(_FORMAT)
    foreign = sorted({package.stanza.architecture for package in packages} - {native, "all"})
    if foreign:
        yield FOLDER + b"/arch", text_file("".join(f"{name}\n" for name in (native, *foreign)).encode())
    for package in packages:
        stem = FOLDER + b"/info/" + info_name(package).encode() + b"."
        yield stem + b"list", text_file(_paths(package))
        for path, file in package.control.files():
            if path != b"control":
                yield stem + path, file


def text_file(contents: bytes) -> NewFile:
    """Return a plain file that holds these bytes."""
    return NewFile(executable=False, chunks=[contents])


def info_name(package: UnpackedDeb) -> str:
    """Return the stem of a package's files in dpkg's info folder."""
    stanza = package.stanza
    return f"{stanza.package}:{stanza.architecture}" if stanza.multi_arch_same else stanza.package


def _paths(package: UnpackedDeb) -> bytes:
    """List the package's paths as it ships them, links that merge folders or not, as dpkg does."""
    return b"/.\n" + b"".join(b"/" + path + b"\n" for path in sorted(package.data) if path)


def _status(store: Store, package: UnpackedDeb) -> str:
    lines: list[str] = []
    for name, value in package.stanza.fields:
        lines.append(f"{name}: {value}" if value[:1] != "\n" else f"{name}:{value}")
        if name.lower() == "package":
            lines.append("Status: install ok installed")
    conffiles = _conffiles(store, package)
    if conffiles:
        lines += ["Conffiles:", *conffiles]
    return "\n".join(lines) + "\n\n"


def _conffiles(store: Store, package: UnpackedDeb) -> list[str]:
    listed = package.control.get(b"conffiles")
    if not isinstance(listed, File):
        return []
    lines: list[str] = []
    for line in read_all(store, listed).decode("utf-8", "surrogateescape").splitlines():
        path = line.strip()
        entry = package.data.get(path.removeprefix("/").encode("utf-8", "surrogateescape"))
        if isinstance(entry, File):
            hasher = hashlib.md5(usedforsecurity=False)
            for piece in store.read(entry):
                hasher.update(piece)
            lines.append(f" {path} {hasher.hexdigest()}")
    return lines
