# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.archives import Unpacked, unpack_deb, unpack_tar, unpack_wheel, unpack_zip
from derive.errors import DeriveError
from derive.store.memory import MemoryStore
from derive.trees.listing import ListingError, Symlink
from support.archives import Tar, Zip, contents, deb, folder, pax, put, symlink, tar, wheel, zipped

NAMES = st.text(st.characters(blacklist_characters="/\0\\", blacklist_categories=["Cs"]), min_size=1, max_size=60)
PATHS = st.lists(NAMES.filter(lambda n: n not in (".", "..") and len(n.encode()) < 256), min_size=1, max_size=5)
FILES = st.dictionaries(PATHS.map("/".join), st.tuples(st.binary(max_size=2000), st.booleans()), max_size=8)
FORMS = st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
QUICK = settings(max_examples=60, deadline=None)


def is_tree(files: dict[str, tuple[bytes, bool]]) -> bool:
    return not any(other.startswith(path + "/") for path in files for other in files)


def expected(files: dict[str, tuple[bytes, bool]]) -> dict[bytes, object]:
    shown: dict[bytes, object] = {}
    for path, (data, executable) in files.items():
        parts = path.encode().split(b"/")
        shown |= {b"/".join(parts[:n]): "/" for n in range(1, len(parts))}
        shown[path.encode()] = (data, "x") if executable else data
    return shown


@QUICK
@given(FILES.filter(is_tree), FORMS)
def test_what_python_packs_into_a_tar_unpacks_to_the_same(files: dict[str, tuple[bytes, bool]], form: int) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for path, (data, executable) in files.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), 0o755 if executable else 0o644
            archive.addfile(info, io.BytesIO(data))
    store = MemoryStore()
    got = unpack_tar(store, put(store, gzip.compress(out.getvalue(), 1)), name="x.tar.gz")
    assert contents(store, got.listing) == expected(files)
    assert got.notes == ()


@QUICK
@given(FILES.filter(is_tree), st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
def test_what_python_packs_into_a_zip_unpacks_to_the_same(files: dict[str, tuple[bytes, bool]], method: int) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for path, (data, executable) in files.items():
            info = zipfile.ZipInfo(path)
            info.compress_type = method
            info.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
            archive.writestr(info, data)
    store = MemoryStore()
    got = unpack_zip(store, put(store, out.getvalue()), name="x.zip")
    assert contents(store, got.listing) == expected(files)


SAMPLES = {
    "tar": tar(
        folder(b"d"),
        pax({b"path": b"d/" + b"n" * 200, b"SCHILY.xattr.a": b"1"}),
        Tar(name=b"x", data=b"text" * 300),
        Tar(name=b"@", kind=b"L", data=b"l" * 150 + b"\0"),
        symlink(b"y", b"d"),
    ),
    "zip": zipped(Zip(name=b"a", data=b"x" * 500), Zip(name=b"l", data=b"a", mode=0o120777), wide=True),
    "deb": deb(folder(b"./"), Tar(name=b"./usr/bin/x", data=b"y" * 700, mode=0o4755)),
    "wheel": wheel(Zip(name=b"demo/__init__.py", data=b"x = 1\n")),
}
READERS: dict[str, Callable[..., Unpacked]] = {
    "tar": unpack_tar,
    "zip": unpack_zip,
    "deb": unpack_deb,
    "wheel": unpack_wheel,
}


@pytest.mark.parametrize("kind", SAMPLES)
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_archive_is_read_or_refused_and_nothing_else(kind: str, data: st.DataObject) -> None:
    """Any bytes changed, cut or added: a tree or an error for people, never a crash and never a path outside."""
    raw = bytearray(SAMPLES[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place : place + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    if kind in ("tar", "deb") and data.draw(st.booleans()):
        fix_checksums(raw)
    store = MemoryStore()
    try:
        listing = READERS[kind](store, put(store, bytes(raw)), name="x").listing
    except DeriveError:
        return
    try:
        assert store.has_tree(store.add_listing(listing))
    except ListingError as error:
        pytest.fail(str(error))
    links = {path for path, entry in listing.items() if isinstance(entry, Symlink)}
    for path in listing:
        assert b".." not in path.split(b"/")
        assert not path.startswith(b"/")
        assert not any(path.startswith(link + b"/") for link in links)


def fix_checksums(raw: bytearray) -> None:
    """Make the headers of a damaged tar valid again, so that the damage gets past the first check."""
    start = raw.find(b"ustar") - 257
    while 0 <= start <= len(raw) - 512:
        block = raw[start : start + 512]
        block[148:156] = b" " * 8
        raw[start + 148 : start + 156] = b"%06o\0 " % sum(block)
        start = raw.find(b"ustar", start + 263) - 257
