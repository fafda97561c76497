# SPDX-License-Identifier: Apache-2.0
"""A layout is written whole or not at all, from any store to the same bytes, and never by a link."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.audit import shallow
from derive.canonical import Digest, sha256
from derive.capsule import locate
from derive.capsule import write as write_module
from derive.capsule.check import check_capsule
from derive.capsule.model import CapsuleDocument, Use, parts_of
from derive.capsule.read import open_capsule
from derive.capsule.whole import Read, Whole, whole_of
from derive.capsule.write import Room, check_target, write_capsule
from derive.errors import Corrupt, HostRefuses, InputErrors
from support.capsules import files_in

SHARED, LARGE = b"in both", bytes(range(256)) * 9000


def whole(name: str, *data: bytes, backwards: bool = False) -> Whole:
    blobs = {sha256(one): one for one in (SHARED, *data)}
    uses = [(Use(kind="fetch-deb", name=f"{len(one)}.deb"), digest, len(one)) for digest, one in blobs.items()]
    document = CapsuleDocument(
        name=name,
        release=sha256(name.encode()),
        platforms=("linux/amd64",),
        engine=(),
        parts=parts_of(reversed(uses) if backwards else uses),
        trees={},
    )

    def read(digest: Digest) -> Iterator[bytes]:
        for at in range(0, len(blobs[digest]), 1000 if backwards else 7000):
            yield blobs[digest][at : at + (1000 if backwards else 7000)]

    return whole_of(document, read)


def constant(data: bytes) -> Read:
    return lambda _: iter((data,))


def write(one: Whole, target: Path, *, add: bool = False) -> list[Room]:
    said: list[Room] = []
    write_capsule(one, target, add=add, jobs=2, say=said.append)
    return said


@pytest.fixture(params=["kept", "kept.tar"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def bytes_of(target: Path) -> object:
    return target.read_bytes() if target.is_file() else files_in(target)


def test_a_capsule_is_the_same_bytes_from_any_order_and_pieces(target: Path, tmp_path: Path) -> None:
    write(whole("a", b"x", LARGE), target)
    other = tmp_path / f"other{target.suffix}"
    write(whole("a", LARGE, b"x", backwards=True), other)
    assert bytes_of(target) == bytes_of(other)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([target.name, other.name])


def test_added_to_another_it_is_the_same_in_either_order_and_holds_what_both_have_once(
    target: Path, tmp_path: Path
) -> None:
    first, second = whole("a", b"x"), whole("b", b"y", LARGE)
    write(first, target)
    said = write(second, target, add=True)
    other = tmp_path / f"other{target.suffix}"
    write(second, other, add=True)
    write(first, other, add=True)
    assert bytes_of(target) == bytes_of(other)
    capsule = open_capsule(target)
    assert [one.name for one in capsule.releases] == ["a", "b"]
    assert len(capsule.layout.blobs()) == 3 + 4 + 1
    if target.suffix != ".tar":
        assert said[0].blobs == 4  # what is there already is not written again


def test_the_same_release_added_again_takes_the_place_of_its_earlier_capsule(target: Path) -> None:
    write(whole("a", b"x"), target)
    write(whole("a", b"y"), target, add=True)
    (document,) = open_capsule(target).releases
    assert sha256(b"y") in {part.digest for part in document.parts}


def test_a_capsule_that_lies_there_is_kept_unless_add_is_said(target: Path) -> None:
    write(whole("a", b"x"), target)
    before = bytes_of(target)
    with pytest.raises(InputErrors) as caught:
        write(whole("b", b"y"), target)
    (problem,) = caught.value.problems()
    assert (problem.message, problem.detail) == ("a capsule lies there already", ("of        a",))
    assert bytes_of(target) == before


def test_what_is_no_capsule_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    (tmp_path / "x.tar").mkdir()
    (tmp_path / "file").write_text("dear")
    (tmp_path / "link").symlink_to("mine")
    for name, words in (
        ("mine", "the folder holds other things than a capsule"),
        ("x.tar", "no file, and what ends in .tar is one"),
        ("file", "no folder"),
        ("link", "no folder"),
        ("absent/kept", "does not exist"),
    ):
        with pytest.raises(InputErrors) as caught:
            check_target(tmp_path / name, add=True)
        assert words in caught.value.problems()[0].message
    assert (tmp_path / "mine" / "letter").read_text() == "dear"


def test_an_empty_folder_becomes_the_capsule(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    write(whole("a"), tmp_path / "kept")
    assert open_capsule(tmp_path / "kept").releases[0].name == "a"


def test_what_an_earlier_run_finished_is_not_written_again_and_what_it_tore_is(tmp_path: Path) -> None:
    blobs = tmp_path / ".kept.unfinished" / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    (blobs / sha256(LARGE).hex).write_bytes(LARGE)
    (blobs / sha256(b"x").hex).write_bytes(b"y")
    (blobs / sha256(b"of another release").hex).write_bytes(b"of another release")
    (tmp_path / ".kept.unfinished" / "half.part").write_bytes(b"ha")
    (room,) = write(whole("a", b"x", LARGE), tmp_path / "kept")
    assert room.blobs == 4  # the torn one, the shared one, document, manifest
    write(whole("a", b"x", LARGE), tmp_path / "other")
    assert files_in(tmp_path / "kept") == files_in(tmp_path / "other")


@pytest.mark.parametrize("cut", [100, 600, 4000, 1_000_000, -700])
def test_a_tar_goes_on_where_an_earlier_run_was_killed(tmp_path: Path, cut: int) -> None:
    write(whole("a", b"x", LARGE), tmp_path / "whole.tar")
    data = (tmp_path / "whole.tar").read_bytes()
    torn = bytearray(data[:cut])
    (tmp_path / ".kept.tar.unfinished").write_bytes(torn)
    write(whole("a", b"x", LARGE), tmp_path / "kept.tar")
    assert (tmp_path / "kept.tar").read_bytes() == data
    torn[len(torn) // 2] ^= 1
    (tmp_path / ".again.tar.unfinished").write_bytes(torn + b"more" * 4_000_000)
    write(whole("a", b"x", LARGE), tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == data


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("blobs", [0, 1, 3])
def test_killed_at_any_blob_it_leaves_what_was_there_and_the_next_run_ends_it(
    target: Path, tmp_path: Path, blobs: int, *, add: bool
) -> None:
    if add:
        write(whole("a", b"first"), target)
    before = bytes_of(target) if add else None
    good = whole("b", b"x", LARGE)
    left = [blobs]

    def read(digest: Digest) -> Iterator[bytes]:
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return good.read(digest)

    child = os.fork()
    if not child:
        write_capsule(
            Whole(listed=good.listed, blobs=good.blobs, read=read), target, add=add, jobs=1, say=lambda _: None
        )
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert (bytes_of(target) if add else target.exists()) == (before or False)
    write(good, target, add=add)
    other = tmp_path / f"other{target.suffix}"
    if add:
        write(whole("a", b"first"), other)
    write(good, other, add=add)
    assert bytes_of(target) == bytes_of(other)


def test_bytes_that_are_not_what_their_name_says_are_not_packed(target: Path) -> None:
    good = whole("a", b"x")
    for wrong, words in ((b"z", "is not what its name says|another size"), (b"more", "another size")):
        bad = Whole(listed=good.listed, blobs=good.blobs, read=constant(wrong))
        with pytest.raises(Corrupt, match=words):
            write(bad, target)
    assert not target.exists()


def test_another_process_that_writes_the_same_capsule_is_said(target: Path) -> None:
    staged = target.parent / f".{target.name}.unfinished"
    if target.suffix == ".tar":
        staged.touch()
    else:
        staged.mkdir()
    handle = os.open(staged, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(HostRefuses, match="another process writes this capsule"):
            write(whole("a"), target)
    finally:
        os.close(handle)


def test_no_file_of_a_capsule_has_another_name(tmp_path: Path) -> None:
    write(whole("a", LARGE), tmp_path / "kept")
    assert {path.stat().st_nlink for path in (tmp_path / "kept").rglob("*") if path.is_file()} == {1}


def test_without_room_the_margin_is_said_and_nothing_is_left(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_module, "free_bytes", lambda _: 123_456)
    with pytest.raises(HostRefuses, match="no room for the capsule") as refused:
        write(whole("a", LARGE), target)
    needed, beside, free = refused.value.detail
    assert needed.startswith("to write   ")
    assert int(needed.split()[2]) > len(LARGE)
    assert beside == f"beside it  {1 << 20:>7} bytes"
    assert free == "free        123456 bytes"
    assert list(target.parent.iterdir()) == []


def test_what_was_finished_before_the_disk_was_full_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(whole("a", LARGE), tmp_path / "made.tar")
    unfinished = tmp_path / ".kept.tar.unfinished"
    unfinished.write_bytes((tmp_path / "made.tar").read_bytes()[:4096])
    monkeypatch.setattr(write_module, "free_bytes", lambda _: 0)
    with pytest.raises(HostRefuses, match="no room for the capsule"):
        write(whole("a", LARGE), tmp_path / "kept.tar")
    assert unfinished.stat().st_size == 4096


def test_a_blob_of_another_size_is_said_to_be_and_not_hashed(tmp_path: Path) -> None:
    write(whole("a", LARGE), tmp_path / "kept")
    blobs = tmp_path / "kept" / "blobs" / "sha256"
    os.truncate(blobs / sha256(LARGE).hex, 1 << 42)
    (blobs / sha256(b"of nobody").hex).touch()
    os.truncate(blobs / sha256(b"of nobody").hex, 1 << 42)
    capsule = open_capsule(tmp_path / "kept")
    (document,) = capsule.releases
    signal.alarm(20)  # hashing four terabytes would take hours
    try:
        checked = check_capsule(capsule, jobs=2)
        audited = list(shallow._blobs(capsule, document, 2, []))
        altered = locate._altered(capsule, (), locate.Looking(say=print, jobs=2, deep=True))
    finally:
        signal.alarm(0)
    assert [one.message for one in audited] == [f"fetch-deb {len(LARGE)}.deb has another size in the capsule"]
    assert altered == {sha256(LARGE)}
    (problem,) = checked.problems
    assert problem.message == f"a blob has another size: fetch-deb {len(LARGE)}.deb"
    assert problem.detail[1:] == (f"expected  {len(LARGE)} bytes", f"got       {1 << 42} bytes")
    assert (checked.blobs, checked.unnamed) == (3, 1)
