# SPDX-License-Identifier: Apache-2.0
"""What a container sees of an image's files: type, bits, owner, time and contents by path; and where two images differ.

Core: no IO of its own; it reads through the store that it is given.

Each layer is held against its diff id. What a layer takes away of those below is here a path of its own: no image that
derive makes has any, so that it shows as a difference.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from derive.archives.stream import decompressed
from derive.canonical import Digest, escape
from derive.errors import Corrupt, expected_got
from derive.oci.tree import image_documents
from derive.store.protocol import Store

_NO_LIMIT = 1 << 62
_SHOWN = 10
_KINDS = {tarfile.REGTYPE: "file", tarfile.AREGTYPE: "file", tarfile.DIRTYPE: "folder", tarfile.SYMTYPE: "link"}


class Shown(NamedTuple):
    """What a container sees at a path. ``what`` is a file's digest or a link's target; ``time`` in seconds of 1970."""

    kind: str
    mode: int
    uid: int
    gid: int
    time: float
    size: int
    what: bytes
    attributes: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        text = f"{self.kind} {self.mode:04o} {self.uid}:{self.gid} time {self.time:g}"
        if self.kind == "file":
            text += f" {self.size} bytes {self.what.hex()[:12]}"
        elif self.kind == "link":
            text += f" -> {escape(self.what)}"
        return text + "".join(f" {key}" for key, _ in self.attributes)


def shown_files(store: Store, manifest: Digest, *, name: str, contents: bool = True) -> Mapping[bytes, Shown]:
    """Return what an image of the store shows at each path but the root; ``name`` is what errors call it.

    Without ``contents`` nothing is said of what is in files.

    Raises:
        Corrupt: when a document or a layer is damaged, or a layer is not the one that the config names.
        Missing: when a blob is not in the store.
    """
    found, config = image_documents(store, manifest, name=name)
    files: dict[bytes, Shown] = {}
    for number, (layer, diff_id) in enumerate(zip(found.layers, config.diff_ids, strict=True)):
        where = f"{name}: layer {number} ({layer.digest.short})"
        stream = _Stream(decompressed(where, store.read_blob(layer.digest), _NO_LIMIT))
        try:
            end = _lay(files, stream, contents=contents)
        except (tarfile.TarError, OSError) as error:
            raise Corrupt(f"a layer that is no tar archive: {error}", where=where) from error
        stream.read_to_end()
        if stream.filled > end:  # a reader takes a damaged header for the end
            raise Corrupt("a layer that goes on after its end", where=where)
        if stream.digest != diff_id:
            detail = expected_got(diff_id, stream.digest)
            raise Corrupt("a layer that is not the one that the config names", where=where, detail=detail)
    return files


def layer_members(store: Store, layer: Digest, *, where: str) -> Iterator[tuple[bytes, tarfile.TarInfo]]:
    """Yield the members of a layer's tar as they come, each with its path; raises Corrupt when it is none."""
    stream = _Stream(decompressed(where, store.read_blob(layer), _NO_LIMIT))
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=tarfile.BLOCKSIZE * 256) as archive:  # type: ignore[call-overload]
            for member in archive:
                archive.members = []  # it would keep every member that it has read
                yield _path(member.name), member
    except (tarfile.TarError, OSError) as error:
        raise Corrupt(f"a layer that is no tar archive: {error}", where=where) from error


def file_differences(native: Mapping[bytes, Shown], built: Mapping[bytes, Shown]) -> list[str]:
    """Return the paths at which two images do not show the same, as lines for a person: the first ten, and a count."""
    differing = sorted(path for path in native.keys() | built.keys() if native.get(path) != built.get(path))
    lines = [
        f"/{escape(path)}: {_of(native, path)}, and in the other {_of(built, path)}" for path in differing[:_SHOWN]
    ]
    return lines + ([f"and {len(differing) - _SHOWN} more"] if len(differing) > _SHOWN else [])


def _of(files: Mapping[bytes, Shown], path: bytes) -> str:
    return str(files[path]) if path in files else "nothing"


class _Stream:
    """The bytes of a layer's tar, hashed as they are read; behind ``filled`` bytes there are zeros alone."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = memoryview(b"")
        self._hasher = hashlib.sha256()
        self._size = 0
        self.filled = 0

    def read(self, size: int) -> bytes:
        """Return up to so many bytes; fewer at the end alone."""
        taken = bytearray(self._take(size))
        while len(taken) < size and (piece := next(self._pieces, b"")):
            self._hasher.update(piece)
            if kept := len(piece.rstrip(b"\0")):
                self.filled = self._size + kept
            self._size += len(piece)
            self._held = memoryview(piece)
            taken += self._take(size - len(taken))
        return bytes(taken)

    def _take(self, size: int) -> memoryview:
        taken, self._held = self._held[:size], self._held[size:]
        return taken

    def read_to_end(self) -> None:
        """Read what is left."""
        while self.read(1 << 20):
            pass

    @property
    def digest(self) -> Digest:
        """That of all that was read."""
        return Digest(self._hasher.hexdigest())


def _lay(files: dict[bytes, Shown], stream: _Stream, *, contents: bool) -> int:
    """Take in a layer, and return where its last member ends."""
    with tarfile.open(fileobj=stream, mode="r|", bufsize=tarfile.BLOCKSIZE * 256) as archive:  # type: ignore[call-overload]
        for member in archive:
            archive.members = []  # it would keep every member that it has read
            path = _path(member.name)
            if member.islnk():
                target = files.get(_path(member.linkname))
                if target is None:
                    raise Corrupt(f"a hard link to {escape(_path(member.linkname))}, which is not before it")
                files[path] = target
            elif path:
                files[path] = _shown(archive, member, contents=contents)
        return int(archive.offset)


def _shown(archive: tarfile.TarFile, member: tarfile.TarInfo, *, contents: bool) -> Shown:
    kind = _KINDS.get(member.type, f"entry of type {member.type!r}")
    what = b""
    if kind == "file" and contents:
        what = _digest(archive, member)
    elif kind == "link":
        what = _bytes(member.linkname)
    return Shown(
        kind=kind,
        mode=member.mode & 0o7777,
        uid=member.uid,
        gid=member.gid,
        time=float(member.mtime),
        size=member.size if kind == "file" else 0,
        what=what,
        attributes=tuple(sorted((key, value) for key, value in member.pax_headers.items() if "xattr" in key)),
    )


def _digest(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    hasher = hashlib.sha256()
    file = archive.extractfile(member)
    assert file is not None
    while piece := file.read(1 << 20):
        hasher.update(piece)
    return hasher.digest()


def _path(name: str) -> bytes:
    path = _bytes(name).strip(b"/")
    return path[2:] if path.startswith(b"./") else b"" if path == b"." else path


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
