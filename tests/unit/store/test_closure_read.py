# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from derive.canonical import encode
from derive.errors import Corrupt, DeriveError, InputErrors
from derive.images.tar import BLOCK
from derive.store.closure_export import export_closure
from derive.store.closure_file import Blob, Log, Tree, start
from derive.store.closure_gather import gather
from derive.store.closure_read import open_closure
from derive.store.local import LocalStore
from derive.store.reach import Level
from derive.trust.keys import SigningKey
from support.closures import fill

KEY = SigningKey(bytes(32))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    top = tmp_path_factory.mktemp("read")
    with LocalStore(top / "store") as store:
        export_closure(store, gather(store, [fill(store).image], Level.AUDIT), top / "x", [KEY])
    return (top / "x").read_bytes()


@pytest.fixture
def path(whole: bytes, tmp_path: Path) -> Path:
    (tmp_path / "x.closure").write_bytes(whole)
    return tmp_path / "x.closure"


def read_all(path: Path) -> int:
    """Read everything in a file, and return how much that is."""
    with open_closure(path) as file:
        found = sum(len(file.read(member)) for member in file.members)
        file.listings()
        return found


def test_a_file_says_what_it_holds(path: Path) -> None:
    with open_closure(path) as file:
        assert file.closure.level is Level.AUDIT
        assert file.envelope.is_signed_by(KEY.public)
        kinds = [type(member.what) for member in file.members]
    assert set(kinds) == {Tree, Log, Blob}
    assert read_all(path) > 0


def test_no_byte_can_be_changed_unseen(whole: bytes, path: Path) -> None:
    step = max(1, len(whole) // 400)
    unseen = []
    for at in range(0, len(whole), step):
        changed = bytearray(whole)
        changed[at] ^= 1
        path.write_bytes(changed)
        try:
            read_all(path)
            with open_closure(path) as file:  # signatures are judged elsewhere; the id beside one proves nothing
                assert file.envelope.is_signed_by(KEY.public)
                assert file.envelope.signatures[0].key == KEY.public.id
        except (DeriveError, AssertionError):
            continue
        unseen.append(at)
    assert unseen == []


def test_a_file_cut_short_anywhere_is_said_to_be(whole: bytes, path: Path) -> None:
    for size in (0, 1, 511, 512, 513, 4096, len(whole) // 2, len(whole) - 1025, len(whole) - 512, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(Corrupt) as caught, open_closure(path):
            pass
        assert caught.value.where == str(path)


def test_what_follows_the_end_is_refused(whole: bytes, path: Path) -> None:
    for more in (b"x", bytes(512), whole):
        path.write_bytes(whole + more)
        with pytest.raises(Corrupt, match="follows the end"), open_closure(path):
            pass


def test_an_altered_member_is_named_when_it_is_read(whole: bytes, path: Path) -> None:
    with open_closure(path) as file:
        member = next(one for one in file.members if isinstance(one.what, Blob))
    changed = bytearray(whole)
    changed[member.offset] ^= 1
    path.write_bytes(changed)
    with open_closure(path) as file, pytest.raises(Corrupt, match=member.name):
        file.read(member)


def test_a_member_of_another_name_is_refused(whole: bytes, path: Path) -> None:
    with open_closure(path) as file:
        member = file.members[-1]
    changed = bytearray(whole)
    at = member.offset - BLOCK
    changed[at : at + len(member.name)] = b"../" + member.name[3:].encode()
    path.write_bytes(changed)
    with pytest.raises(Corrupt, match="another header"), open_closure(path):
        pass


def test_a_statement_about_another_manifest_is_refused(whole: bytes, path: Path) -> None:
    with open_closure(path) as file:
        closure, statement = file.closure, file.envelope.encoded()
        end = len(start(closure.encoded(), statement))
    other = closure.encoded().replace(b'"level":"audit"', b'"level":"aucit"')
    path.write_bytes(start(other, statement) + whole[end:])
    with pytest.raises(Corrupt, match="not what the statement is about"), open_closure(path):
        pass


def test_a_manifest_that_is_no_closure_is_refused(path: Path) -> None:
    path.write_bytes(start(encode({"derive": "closure/1"}), b"{}"))
    with pytest.raises(Corrupt), open_closure(path):
        pass


@pytest.mark.parametrize("data", [b"", b"\0" * 10240, b"text" * 1000, b"PK\x03\x04" + bytes(600)])
def test_any_other_file_is_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(Corrupt, match="not a closure file"), open_closure(path):
        pass


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("absent", "pipe", "."):
        with pytest.raises(DeriveError) as caught, open_closure(tmp_path / name):
            pass
        assert caught.value.problems()[0].where == str(tmp_path / name)
    with pytest.raises(InputErrors), open_closure(tmp_path / "absent"):
        pass


def test_a_size_that_lies_costs_no_memory(whole: bytes, path: Path) -> None:
    from derive.store.closure_file import member_header

    path.write_bytes(member_header("manifest.json", 1 << 29) + whole[BLOCK:])
    with pytest.raises(Corrupt, match="cut short"), open_closure(path):
        pass
