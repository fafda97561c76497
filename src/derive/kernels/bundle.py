# SPDX-License-Identifier: Apache-2.0
"""A bundle: everything that a machine with a GPU needs to check and time the kernels, in one archive, without derive.

Edge: the store, wheels in a folder, one output file.

It holds the cache for one GPU architecture, the package ds41_kernels, TileLang's wheels for the Python there, and the
programs of derive.kernels.gpu. The same inputs give the same bytes, however many threads compress them.
"""

from __future__ import annotations

import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import IO, TypeAlias

from derive.canonical import EPOCH, Digest, Json, sha256
from derive.errors import InputErrors, Problem
from derive.store.protocol import Store
from derive.trees.listing import Directory, Entry, File, Listing, Symlink

FORMAT = "kernel-bundle/1"
WHEELS = ("apache-tvm-ffi", "cloudpickle", "tilelang", "torch-c-dlpack-ext", "z3-solver")
"""What TileLang needs beyond what a machine with torch has; others in a folder of wheels come along."""

_TOP = "kernels"
_CHUNK_BYTES = 24 << 20
_WORTH_A_LINK = 1 << 20
_PRESET = 1  # six times as fast as the usual 6, for a seventh more bytes
_START = """\
# SPDX-License-Identifier: Apache-2.0
\"\"\"Check and time the kernels of this bundle: python3 run.py --all --out out\"\"\"

import sys

from gpu.main import main

if __name__ == "__main__":
    sys.exit(main())
"""

Read: TypeAlias = Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One path of the archive: a folder where ``read`` is None and there is no ``link``."""

    path: str
    executable: bool = False
    size: int = 0
    read: Read | None = None
    link: str | None = None


def text_member(path: str, text: str) -> Member:
    """Return a file of UTF-8 text."""
    data = text.encode("utf-8")
    return Member(path=path, size=len(data), read=lambda: (data,))


def tree_members(store: Store, listing: Listing, at: str) -> Iterator[Member]:
    """Yield a stored tree below a folder."""
    for path in listing:
        name = "/".join(filter(None, (at, path.decode("utf-8", "surrogateescape"))))
        yield _entry_member(store, listing[path], name)


def _entry_member(store: Store, entry: Entry, name: str) -> Member:
    match entry:
        case Directory():
            return Member(path=name)
        case Symlink(target=target):
            return Member(path=name, link=target.decode("utf-8", "surrogateescape"))
        case File() as file:
            return Member(path=name, executable=file.executable, size=file.size, read=lambda: store.read(file))


def program_members() -> Iterator[Member]:
    """Yield the programs that run there."""
    yield text_member("run.py", _START)
    yield Member(path="gpu")
    for file in sorted(resources.files("derive.kernels.gpu").iterdir(), key=lambda one: one.name):
        if file.name.endswith(".py"):
            yield text_member(f"gpu/{file.name}", file.read_text("utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What lies on the import path there: the files of some wheels, and each wheel's name with its SHA-256."""

    members: tuple[Member, ...]
    wheels: Mapping[str, Digest]


def site_of(folder: Path) -> Site:
    """Return what the wheels of a folder hold for the import path; their programs and headers stay behind.

    Raises:
        InputErrors: for a folder that lacks one of :data:`WHEELS`, and for files that are no wheels.
    """
    files = sorted(folder.glob("*.whl"))
    here = [_project(file) for file in files]
    hint = "put there what TileLang needs, for the Python of the machine with the GPU"
    problems = [
        Problem(where=str(folder), message=f"no wheel of {name}", hint=hint) for name in WHEELS if name not in here
    ]
    problems += [
        Problem(where=str(folder), message=f"several wheels of {name}")
        for name in sorted(set(here))
        if here.count(name) > 1
    ]
    problems += [Problem(where=str(file), message="not a wheel") for file in files if not zipfile.is_zipfile(file)]
    if problems:
        raise InputErrors(problems)
    members = tuple(member for file in files for member in _wheel(file))
    return Site(members=members, wheels={file.name: sha256(file.read_bytes()) for file in files})


def _project(file: Path) -> str:
    return file.name.partition("-")[0].replace("_", "-").lower()


def _wheel(file: Path) -> Iterator[Member]:
    # Held open by its members: opening it again for each of thousands would read its directory as often.
    archive = zipfile.ZipFile(file)
    seen: dict[tuple[str, int, int], str] = {}
    for info in sorted(archive.infolist(), key=lambda one: one.filename):
        path = site_path(info.filename)
        if path is None or info.is_dir():
            continue
        folder, _, name = path.rpartition("/")
        first = seen.setdefault((folder, info.CRC, info.file_size), name)
        if first != name and info.file_size >= _WORTH_A_LINK:
            # A wheel cannot hold a link, so a library with two names is in it twice.
            yield Member(path=f"site/{path}", link=first)
        else:
            executable = bool(info.external_attr >> 16 & 0o100)
            read = partial(_zipped, archive, info)
            yield Member(path=f"site/{path}", executable=executable, size=info.file_size, read=read)


def _zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as member:
        while piece := member.read(1 << 20):
            yield piece


def site_path(path: str) -> str | None:
    """Return where a wheel's path lies on the import path; None for what does not."""
    folder, _, inner = path.partition("/")
    if not folder.endswith(".data"):
        return path
    scheme, _, rest = inner.partition("/")
    return rest if scheme in ("purelib", "platlib") and rest else None


def unpacked_wheel_members(store: Store, listing: Listing) -> Iterator[Member]:
    """Yield the same of a wheel that is unpacked in the store."""
    for path in listing:
        place = site_path(path.decode("utf-8", "surrogateescape"))
        if place and not isinstance(listing[path], Directory):
            yield _entry_member(store, listing[path], f"site/{place}")


def manifest_member(manifest: Mapping[str, Json]) -> Member:
    """Return the file in which the bundle says what it holds."""
    document = {"derive": FORMAT, **manifest}
    return text_member("bundle.json", json.dumps(document, indent=1, sort_keys=True) + "\n")


def write_bundle(members: Iterable[Member], file: IO[bytes], *, jobs: int) -> int:
    """Write the members as .tar.xz, sorted by path; return how many bytes that were.

    The tar is cut at fixed sizes and each piece is an xz stream of its own, so that threads can share the work.
    """
    written = 0
    pieces = _cut(_tar(sorted(members, key=lambda one: one.path)))
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        waiting = []
        for piece in pieces:
            waiting.append(pool.submit(_compressed, piece))
            if len(waiting) > jobs:
                written += file.write(waiting.pop(0).result())
        for one in waiting:
            written += file.write(one.result())
    return written


def _compressed(piece: bytes) -> bytes:
    return lzma.compress(piece, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=_PRESET)


def _cut(stream: Iterator[bytes]) -> Iterator[bytes]:
    held = bytearray()
    for part in stream:
        held += part
        while len(held) >= _CHUNK_BYTES:
            yield bytes(held[:_CHUNK_BYTES])
            del held[:_CHUNK_BYTES]
    if held:
        yield bytes(held)


def _tar(members: Sequence[Member]) -> Iterator[bytes]:
    seen: set[str] = set()
    for one in members:
        for folder in (*_folders(one.path), *([one.path] if one.read is None and one.link is None else [])):
            if folder not in seen:
                seen.add(folder)
                yield _header(Member(path=folder))
        if one.read is None and one.link is None:
            continue
        if one.path in seen:
            raise InputErrors.one("two files of one name in the bundle", where=one.path)
        seen.add(one.path)
        yield _header(one)
        if one.read is not None:
            yield from one.read()
            yield bytes(-one.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _folders(path: str) -> Iterator[str]:
    parts = path.split("/")
    for count in range(1, len(parts)):
        yield "/".join(parts[:count])


def _header(one: Member) -> bytes:
    info = tarfile.TarInfo("/".join(filter(None, (_TOP, one.path))))
    info.mtime = EPOCH
    if one.read is not None:
        info.size, info.mode = one.size, 0o755 if one.executable else 0o644
    elif one.link is not None:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, one.link, 0o777
    else:
        info.type, info.mode = tarfile.DIRTYPE, 0o755
    return info.tobuf(format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape")


def lay_out(members: Iterable[Member], folder: Path) -> Path:
    """Write the members below a folder, as unpacking their archive would; return where run.py lies."""
    for one in members:
        path = folder / _TOP / one.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if one.link is not None:
            path.symlink_to(one.link)
        elif one.read is None:
            path.mkdir(exist_ok=True)
        else:
            with path.open("xb") as file:
                file.writelines(one.read())
            path.chmod(0o755 if one.executable else 0o644)
    return folder / _TOP / "run.py"
