# SPDX-License-Identifier: Apache-2.0
"""What wheels and source distributions say of themselves, and which wheels a platform can run.

Core: no IO of its own; it reads through the store that it is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from derive.archives.identity import Expected, Stated, check_identity
from derive.archives.names import broken, refused
from derive.errors import expected_got
from derive.store.protocol import Store, read_all
from derive.trees.listing import File, Listing

_MAX_BYTES = 16 << 20  # a long description is a few hundred KiB at most
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_OLDEST_GLIBC = {"amd64": 5, "arm64": 17}
_LEGACY = {"amd64": {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}, "arm64": {17: "manylinux2014"}}
_DEBIAN_NAMES = {machine: name for name, machine in _MACHINES.items()} | {"armv7l": "armhf", "i686": "i386"}
_PLATFORM_TAG = re.compile(r"(?:many|musl)?linux(?:1|2010|2014|_[0-9]+_[0-9]+)?_(?P<machine>[a-z0-9_]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreMetadata:
    """The two fields of a METADATA or PKG-INFO file that identify a distribution, as written there."""

    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFile:
    """A WHEEL file: the version of the format, and the tags that the wheel was built for."""

    version: tuple[int, int]
    tags: tuple[str, ...]


def parse_metadata(archive: str, path: bytes, data: bytes) -> CoreMetadata:
    """Parse core metadata far enough to know whose it is; other fields may be malformed, as they often are.

    Raises:
        Corrupt: when there is no name or no version.
    """
    from packaging.metadata import parse_email

    raw, _ = parse_email(data)
    name, version = raw.get("name"), raw.get("version")
    if not name or not version:
        raise broken(archive, "core metadata without a name and a version", path=path)
    return CoreMetadata(name=name, version=version)


def stated_licence(data: bytes) -> str:
    """Return the licence that core metadata states, in one line: ``unknown`` where it says nothing usable."""
    from packaging.metadata import parse_email

    raw, _ = parse_email(data)
    named = raw.get("license_expression") or raw.get("license") or ""
    licence = " ".join(named.split()) if len(named.strip().splitlines()) == 1 and len(named) <= 100 else ""
    if not licence or licence.lower() in ("unknown", "dual license"):
        listed = (c.removeprefix("License :: ") for c in raw.get("classifiers", []) if c.startswith("License :: "))
        names = sorted({item.removeprefix("OSI Approved :: ") for item in listed} - {"OSI Approved"})
        licence = ", ".join(names)
    return "".join(char for char in licence if char.isprintable()) or "unknown"


def parse_wheel_file(archive: str, path: bytes, data: bytes) -> WheelFile:
    """Parse a WHEEL file.

    Raises:
        Corrupt: when it has no readable Wheel-Version.
        InputErrors: when the format is of a major version other than 1.
    """
    version = ""
    tags: list[str] = []
    for line in data.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key.lower() == "wheel-version":
            version = value.strip()
        elif key.lower() == "tag":
            tags.append(value.strip())
    found = re.fullmatch(r"([0-9]{1,4})\.([0-9]{1,4})", version)
    if found is None:
        raise broken(archive, f"a WHEEL file with Wheel-Version {version!r}", path=path)
    if found[1] != "1":
        raise refused(archive, path, f"a wheel of format {version}, and only 1.x is known")
    return WheelFile(version=(int(found[1]), int(found[2])), tags=tuple(tags))


def dist_info(archive: str, listing: Listing) -> bytes:
    """Return the name of the one ``.dist-info`` folder at the top of a wheel, in whatever case it is written.

    Raises:
        InputErrors: when there is none, or more than one.
    """
    tops = sorted({path.partition(b"/")[0] for path in listing if b"/" in path})
    found = [top for top in tops if top.lower().endswith(b".dist-info")]
    if len(found) != 1:
        shown = b", ".join(found).decode("utf-8", "replace") or "none"
        raise refused(archive, None, f"a wheel has exactly one .dist-info folder, and this one has: {shown}")
    return found[0]


def small_file(archive: str, store: Store, listing: Listing, path: bytes) -> bytes:
    """Return the contents of a file that an archive must have and that people write.

    Raises:
        InputErrors: when it is absent, no file, or larger than 16 MiB.
    """
    entry = listing.get(path)
    if not isinstance(entry, File):
        raise refused(archive, path, "a file that must be there is absent")
    if entry.size > _MAX_BYTES:
        raise refused(archive, path, f"a file of {entry.size} bytes where {_MAX_BYTES} are the most")
    return read_all(store, entry)


def same_name(text: str) -> str:
    """Normalise a project name: runs of ``-``, ``_`` and ``.`` are one, case does not count."""
    from packaging.utils import canonicalize_name

    return canonicalize_name(text)


def same_version(text: str) -> str:
    """Normalise a version; one that is not of the known form is compared as written."""
    from packaging.utils import canonicalize_version

    return canonicalize_version(text)


def check_wheel(archive: str, store: Store, listing: Listing, expected: Expected) -> None:
    """Refuse a wheel whose metadata, .dist-info folder or tags are not of the expected artifact.

    Raises:
        InputErrors: naming what differs.
    """
    info = dist_info(archive, listing)
    path = info + b"/METADATA"
    metadata = parse_metadata(archive, path, small_file(archive, store, listing, path))
    check_folder_name(archive, info, metadata)
    path = info + b"/WHEEL"
    wheel = parse_wheel_file(archive, path, small_file(archive, store, listing, path))
    stated = Stated(
        name=metadata.name, version=metadata.version, architectures=architectures(wheel.tags, expected.architecture)
    )
    check_identity(archive, expected, stated, name=same_name, version=same_version)


def check_sdist(archive: str, store: Store, listing: Listing, expected: Expected) -> None:
    """Refuse a source distribution whose PKG-INFO is not of the expected artifact.

    Raises:
        InputErrors: naming what differs.
    """
    metadata = parse_metadata(archive, b"PKG-INFO", small_file(archive, store, listing, b"PKG-INFO"))
    stated = Stated(name=metadata.name, version=metadata.version)
    check_identity(archive, expected, stated, name=same_name, version=same_version)


def check_folder_name(archive: str, folder: bytes, metadata: CoreMetadata) -> None:
    """Refuse a ``.dist-info`` or ``.data`` folder that is named after another distribution than the metadata.

    Raises:
        InputErrors: with both names.
    """
    stem = folder.decode("utf-8", "replace").rpartition(".")[0]
    name, dash, version = stem.rpartition("-")
    wanted = (same_name(metadata.name), same_version(metadata.version))
    if not dash or (same_name(name), same_version(version.replace("_", "+"))) != wanted:
        detail = expected_got(f"{metadata.name}-{metadata.version}", stem)
        raise refused(archive, folder, "a folder named after another distribution", detail=detail)


def architectures(tags: tuple[str, ...], wanted: str | None) -> frozenset[str]:
    """Return the Debian names of the architectures that a wheel's tags name.

    A wheel without native code runs on ``any``, and so on the wanted one too.
    """
    found: set[str] = set()
    for tag in tags:
        for platform in tag.rpartition("-")[2].split("."):
            match = _PLATFORM_TAG.fullmatch(platform)
            if match:
                found.add(_DEBIAN_NAMES.get(match["machine"], match["machine"]))
            elif platform == "any":
                found |= {"any", "all"} | ({wanted} if wanted else set())
            else:
                found.add(platform)
    return frozenset(found)


def fits(filename: str, *, python: str, platform: str, glibc: tuple[int, int]) -> bool:
    """Say whether a wheel of this file name runs on CPython ``X.Y`` and Debian architecture ``platform``.

    Raises:
        InputErrors: when it is no wheel's file name, or the platform is neither amd64 nor arm64.
    """
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        _, _, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename as error:
        raise refused(filename, None, "not the file name of a wheel") from error
    supported = _supported(python, platform, glibc)
    return any(str(tag) in supported for tag in tags)


@lru_cache(maxsize=16)
def _supported(python: str, platform: str, glibc: tuple[int, int]) -> frozenset[str]:
    from packaging.tags import compatible_tags, cpython_tags

    if platform not in _MACHINES:
        raise refused(platform, None, f"a platform that is none of {', '.join(sorted(_MACHINES))}")
    major, _, minor = python.partition(".")
    version = (int(major), int(minor))
    platforms = list(_platforms(platform, glibc))
    interpreter = f"cp{major}{minor}"
    tags = (
        *cpython_tags(version, platforms=platforms),
        *compatible_tags(version, interpreter=interpreter, platforms=platforms),
    )
    return frozenset(str(tag) for tag in tags)


def _platforms(platform: str, glibc: tuple[int, int]) -> Iterator[str]:
    machine = _MACHINES[platform]
    for minor in range(glibc[1], _OLDEST_GLIBC[platform] - 1, -1):
        yield f"manylinux_{glibc[0]}_{minor}_{machine}"
        legacy = _LEGACY[platform].get(minor)
        if legacy:
            yield f"{legacy}_{machine}"
    yield f"linux_{machine}"
