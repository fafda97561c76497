# SPDX-License-Identifier: Apache-2.0
"""What a hub says of a revision, read strictly."""

from __future__ import annotations

import json

import pytest

from derive.canonical import Digest
from derive.errors import Corrupt
from derive.huggingface.listing import (
    all_files,
    blob_id,
    check_contents,
    file_url,
    parse_commit,
    parse_page,
    pointer,
    revision_url,
    tree_url,
)
from derive.huggingface.model import HfFile, HfPin, is_repository, is_revision

OID = "ce013625030ba8dba906f756967f9e9ca394464a"
SHA = Digest("ab" * 32)
TEXT = pointer(SHA, 5)
SMALL: dict[str, object] = {"type": "file", "oid": OID, "size": 6, "path": "hello"}
LFS = {"oid": SHA.hex, "size": 5, "pointerSize": len(TEXT)}
BIG: dict[str, object] = {"type": "file", "oid": blob_id(TEXT), "size": 5, "path": "a/big", "lfs": LFS}


def page(*entries: object) -> tuple[HfFile, ...]:
    return parse_page(json.dumps(entries).encode(), where="x")


def test_a_blobs_id_is_gits() -> None:
    assert blob_id(b"hello\n") == OID  # git hash-object


def test_a_pointer_is_what_every_client_writes() -> None:
    assert TEXT.splitlines()[1:] == [b"oid sha256:" + b"ab" * 32, b"size 5"]


def test_a_page_gives_files_and_leaves_folders_out() -> None:
    assert page(SMALL, {"type": "directory", "path": "a", "oid": OID, "size": 0}, BIG) == (
        HfFile(path="hello", size=6, sha256=None, blob_id=OID),
        HfFile(path="a/big", size=5, sha256=SHA, blob_id=blob_id(TEXT)),
    )


def test_a_pointer_of_another_form_is_not_compared() -> None:
    assert page({**BIG, "oid": OID, "lfs": {**LFS, "pointerSize": 200}})[0].sha256 == SHA


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (5, "not a file's entry"),
        ({**SMALL, "type": "symlink"}, "neither a file nor a folder: 'symlink'"),
        ({**SMALL, "path": ""}, "without a path"),
        ({**SMALL, "path": 5}, "without a path"),
        ({**SMALL, "path": "/etc/passwd"}, "illegal path"),
        ({**SMALL, "path": "a/../../x"}, "illegal path"),
        ({**SMALL, "path": "a//b"}, "illegal path"),
        ({**SMALL, "path": "a\0b"}, "illegal path"),
        ({**SMALL, "path": "\ud800"}, "illegal path"),
        ({**SMALL, "oid": "main"}, "not a git blob's id"),
        ({**SMALL, "size": -1}, "not a size"),
        ({**SMALL, "size": True}, "not a size"),
        ({**SMALL, "size": "6"}, "not a size"),
        ({**SMALL, "lfs": "x"}, "large-file entry cannot be read"),
        ({**BIG, "lfs": {**LFS, "oid": "AB" * 32}}, "not a SHA-256"),
        ({**BIG, "lfs": {**LFS, "size": 6}}, "another hash or size than the commit"),
        ({**BIG, "lfs": {**LFS, "oid": "cd" * 32}}, "another hash or size than the commit"),
        ({**BIG, "lfs": {"oid": "cd" * 32, "size": 5}}, "another hash or size than the commit"),
    ],
)
def test_what_is_no_file_is_refused(entry: object, words: str) -> None:
    with pytest.raises(Corrupt, match=words):
        page(entry)


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"<html>"])
def test_what_is_no_page_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt):
        parse_page(data, where="x")


@pytest.mark.parametrize("data", [b"[]", b"{}", b'{"sha": "main"}', b'{"sha": 5}', b"x"])
def test_an_answer_without_a_commit_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt):
        parse_commit(data, where="x")


def test_files_are_sorted_by_bytes_and_stand_once() -> None:
    def file(path: str) -> HfFile:
        return HfFile(path=path, size=0, sha256=None)

    names = ["a-b", "a/b", "a", "\U0001f600", "\uffee"]
    found = all_files([file(name) for name in names if name != "a"], where="x")
    assert [item.path for item in found] == ["a-b", "a/b", "\uffee", "\U0001f600"]
    assert all_files([], where="x") == ()
    with pytest.raises(Corrupt, match="a/b lies below a, which is a file"):
        all_files([file(name) for name in names], where="x")
    with pytest.raises(Corrupt, match="the same path twice: b"):
        all_files([file("b"), file("a"), file("b")], where="x")


def test_contents_are_checked_against_the_commit() -> None:
    file = HfFile(path="hello", size=6, sha256=None, blob_id=OID)
    check_contents(file, b"hello\n", where="x")
    with pytest.raises(Corrupt, match="another size"):
        check_contents(file, b"hello", where="x")
    with pytest.raises(Corrupt, match="not the file that is committed"):
        check_contents(file, b"hullo\n", where="x")
    check_contents(HfFile(path="hello", size=6, sha256=None), b"hullo\n", where="x")


def test_urls_are_the_hubs() -> None:
    assert revision_url("http://h/x", "model", "a/b", "refs/pr/1") == "http://h/x/api/models/a/b/revision/refs%2Fpr%2F1"
    assert tree_url("http://h", "dataset", "a/b", OID).startswith(
        f"http://h/api/datasets/a/b/tree/{OID}?recursive=true"
    )
    assert (
        file_url("http://h", "model", "a/b", OID, "c d/e#?%.txt") == f"http://h/a/b/resolve/{OID}/c%20d/e%23%3F%25.txt"
    )
    assert file_url("http://h", "dataset", "a/b", OID, "c") == f"http://h/datasets/a/b/resolve/{OID}/c"


def test_names_of_repositories_and_commits() -> None:
    assert all(map(is_repository, ("gpt2", "deepseek-ai/DeepSeek-V4.1-Flash", "a/b_c.d-e")))
    assert not any(map(is_repository, ("", "/", "a/", "/a", "a/b/c", "-a", "a.", "a/b--c", "a..b", "a\n", "caf\u00e9")))
    assert is_revision(OID)
    assert not any(map(is_revision, (OID[:12], OID.upper(), "main", OID + "\n")))


def test_a_pin_knows_its_size_and_what_is_unpinned() -> None:
    files = page(SMALL, BIG)
    pin = HfPin(repository="a/b", kind="model", revision=OID, files=files)
    assert (pin.size, pin.unpinned, pin.file("a/big"), pin.file("x")) == (11, (files[0],), files[1], None)
