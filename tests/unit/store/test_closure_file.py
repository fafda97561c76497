# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.errors import Corrupt
from derive.images.tar import BLOCK
from derive.store.closure import Closure, Sized
from derive.store.closure_export import export_closure
from derive.store.closure_file import MANIFEST_LIMIT, STATEMENT, member_header, members, padding, size_in, start
from derive.store.closure_gather import gather
from derive.store.local import LocalStore
from derive.store.reach import Level
from support.closures import fill

NAMES = ("manifest.json", STATEMENT)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Closure]]:
    top = tmp_path_factory.mktemp("file")
    with LocalStore(top / "store") as store:
        gathered = gather(store, [fill(store).image], Level.AUDIT)
        export_closure(store, gathered, top / "x.closure", [])
        yield top / "x.closure", gathered.closure


def test_any_tar_reader_reads_the_file(exported: tuple[Path, Closure]) -> None:
    path, closure = exported
    listed = subprocess.run(["tar", "tf", path], capture_output=True, text=True, check=True).stdout.splitlines()
    with tarfile.open(path) as archive:
        assert archive.getnames() == listed
        for name in listed:
            file = archive.extractfile(name)
            assert file is not None
            if name.startswith("blobs/sha256/"):
                assert sha256(file.read()).hex == name.removeprefix("blobs/sha256/")
    assert tuple(listed[:2]) == NAMES
    assert len(listed) == 2 + len(closure.trees) + len(closure.blobs) + len(closure.histories)


def test_owner_mode_and_time_are_always_the_same(exported: tuple[Path, Closure]) -> None:
    with tarfile.open(exported[0]) as archive:
        facts = {(one.uid, one.gid, one.uname, one.gname, one.mode, one.mtime, one.type) for one in archive}
    assert facts == {(0, 0, "", "", 0o644, 315532800, tarfile.REGTYPE)}


def test_everything_follows_from_the_manifest(exported: tuple[Path, Closure]) -> None:
    path, closure = exported
    data = path.read_bytes()
    manifest = closure.encoded()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        statement = archive.extractfile(STATEMENT)
        assert statement is not None
        begun = start(manifest, statement.read())
    assert data.startswith(begun)
    found, size = members(closure, len(begun))
    assert size == len(data)
    for member in found:
        assert data[: member.offset].endswith(member.header)
        contents = data[member.offset : member.offset + member.contents.size]
        assert sha256(contents) == member.contents.digest


def test_contents_beyond_8_gib_have_a_header_that_tar_reads() -> None:
    size = 10 << 30
    head = member_header("blobs/sha256/" + "0" * 64, size)
    with tarfile.open(fileobj=io.BytesIO(head)) as archive:
        info = archive.next()
    assert info is not None
    assert info.size == size


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513])
def test_contents_are_padded_to_whole_blocks(size: int) -> None:
    assert (size + len(padding(size))) % BLOCK == 0


def test_the_size_of_a_first_member_reads_back() -> None:
    for name in NAMES:
        assert size_in(member_header(name, 12345), name) == 12345


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\0" * BLOCK,
        member_header("other.json", 1),
        member_header("../manifest.json", 1),
        member_header("manifest.json", 1)[:-1],
        member_header("manifest.json", 1).replace(b"0000644", b"0000755"),
        member_header("manifest.json", 1).replace(b"00000000001\0", b"0000000001 \0"),
        member_header("manifest.json", 1).replace(b"00000000001\0", b"\x80\0\0\0\0\0\0\0\0\0\0\x01"),
        member_header("manifest.json", 1).replace(b"00000000001\0", b"-0000000001\0"),
        member_header("manifest.json", MANIFEST_LIMIT + 1),
    ],
)
def test_any_other_first_header_is_refused(block: bytes) -> None:
    with pytest.raises(Corrupt):
        size_in(block, "manifest.json")


def test_a_closure_of_nothing_but_a_manifest_has_a_size() -> None:
    closure = Closure.of(Level.RUN, [sha256(b"")], [], [], [Sized(digest=sha256(b""), size=0)])
    found, size = members(closure, 1024)
    assert [member.contents.size for member in found] == [0]
    assert size == 1024 + BLOCK + 2 * BLOCK
