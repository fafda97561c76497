# SPDX-License-Identifier: Apache-2.0
"""The output that a builder sent back: checked by its digests, then read once, as a folder of this machine would be.

Edge: reads files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from derive.archives.names import Limits, broken, refused
from derive.archives.notes import Dropped, Note
from derive.archives.stream import Bytes
from derive.archives.tar import HardLink, read_tar
from derive.canonical import Digest, escape
from derive.errors import Corrupt, expected_got
from derive.oci.documents import Manifest, parse_manifest
from derive.trees.listing import DIRECTORY, Directory, Symlink, nar_key
from derive.trees.pack import Member, NewFile

_CHUNK = 1 << 20
_SET_ID = 0o6000
_MODE = "mode "
_LONGEST_DOCUMENT = 1 << 20
_LIMITS = Limits(entries=1 << 24, names_bytes=1 << 32)
"""An output is as large as the step makes it, here as in this machine's own sandbox."""


@dataclass(frozen=True, slots=True)
class _Slice:
    """A file's contents in the layer."""

    executable: bool
    offset: int
    size: int


_Found: TypeAlias = _Slice | Symlink | Directory


class SentOutput:
    """An output in the layer that a builder wrote. Use it as a context manager, once."""

    def __init__(self, layer: Path | None, name: str) -> None:
        self._layer = layer
        self._name = name
        self._entries: Mapping[bytes, _Found] = {b"": DIRECTORY}
        self._file = -1
        self.special_bits: tuple[tuple[bytes, int], ...] = ()

    def members(self) -> Iterator[tuple[bytes, Member]]:
        """Yield each path with its member in NAR order, the root first; a name of a file yields its contents anew."""
        for path, found in self._entries.items():
            if isinstance(found, _Slice):
                yield path, NewFile(found.executable, self._read(found.offset, found.size))
            else:
                yield path, found

    def __enter__(self) -> Self:
        """Survey the layer; raises InputErrors for what no tree can hold."""
        if self._layer is not None:
            self._file = os.open(self._layer, os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._survey(self._name)
            except BaseException:
                os.close(self._file)
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            os.close(self._file)

    def _survey(self, name: str) -> None:
        notes: list[Note] = []
        found: dict[bytes, _Found] = {b"": DIRECTORY}
        stream = Bytes(name, self._read(0, os.fstat(self._file).st_size))
        for path, member in read_tar(name, stream, notes, limits=_LIMITS):
            match member:
                case NewFile(executable, chunks):
                    start = stream.position
                    found[path] = _Slice(executable, start, sum(map(len, chunks)))
                case HardLink(target):
                    other = found.get(target)
                    if not isinstance(other, _Slice):
                        raise refused(name, path, f"a hard link to {escape(target)}, which is not before it")
                    found[path] = other
                case _:
                    found[path] = member
        self._entries = {path: found[path] for path in sorted(found, key=nar_key)}
        self.special_bits = tuple(sorted(_special(notes, found), key=lambda item: nar_key(item[0])))

    def _read(self, offset: int, size: int) -> Iterator[bytes]:
        end = offset + size
        while offset < end and (data := os.pread(self._file, min(_CHUNK, end - offset), offset)):
            offset += len(data)
            yield data


def _special(notes: list[Note], found: Mapping[bytes, _Found]) -> Iterator[tuple[bytes, int]]:
    for note in notes:
        if isinstance(note, Dropped) and note.what.startswith(_MODE) and isinstance(found.get(note.path), _Slice):
            mode = int(note.what.removeprefix(_MODE).partition(",")[0], 8)
            if mode & _SET_ID:
                yield note.path, mode


def checked_layer(layout: Path, name: str) -> Path | None:
    """Return the one layer of the image in a layout, all of it held against its digests; None where there is none.

    Raises:
        Corrupt: when it is no layout of one such image, or anything in it is not what its digest says.
    """
    try:
        (listed,) = json.loads((layout / "index.json").read_bytes())["manifests"]
        _, manifest = parse_manifest(_document(layout, Digest.parse(listed["digest"]), name), where=name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise broken(name, f"no image in a layout: {error}") from error
    if not isinstance(manifest, Manifest) or len(manifest.layers) > 1:
        raise broken(name, "not an image of one layer")
    if not manifest.layers:
        return None
    (layer,) = manifest.layers
    if not layer.media_type.endswith(".tar"):
        raise broken(name, f"a layer that is not an uncompressed tar: {layer.media_type}")
    place = _blob(layout, layer.digest)
    if not place.is_file():
        raise broken(name, f"blob {layer.digest} is named, and was not sent")
    with place.open("rb") as file:
        got = Digest(hashlib.file_digest(file, "sha256").hexdigest())
    if got != layer.digest:
        raise Corrupt("an output that is not what its digest says", where=name, detail=expected_got(layer.digest, got))
    return place


def _document(layout: Path, digest: Digest, name: str) -> bytes:
    with _blob(layout, digest).open("rb") as file:
        data = file.read(_LONGEST_DOCUMENT)
    got = Digest(hashlib.sha256(data).hexdigest())
    if got != digest:
        raise Corrupt("a document that is not what its digest says", where=name, detail=expected_got(digest, got))
    return data


def _blob(layout: Path, digest: Digest) -> Path:
    return layout / "blobs" / "sha256" / digest.hex
