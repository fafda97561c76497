# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.store.memory import MemoryStore
from derive.trees.listing import DIRECTORY, EMPTY, File, Listing, Symlink
from derive.trees.nar import frames, nar_digest, serialise, single
from derive.trees.pack import add_members
from derive.trees.scan import scan_folder
from support.folders import ODD, Plain, Spec, members_of, nix_dump, nix_hash, write_folder

EMPTY_FOLDER_NAR = bytes.fromhex(
    "0d000000000000006e69782d617263686976652d3100000001000000000000002800000000000000"
    "0400000000000000747970650000000009000000000000006469726563746f7279000000000000000100000000000000"
    "2900000000000000"
)


def nar(spec: Spec) -> bytes:
    store = MemoryStore()
    listing = add_members(store, members_of(spec))
    return b"".join(serialise(listing, lambda _, file: store.read(file)))


def of_text(data: bytes, *, executable: bool = False) -> File:
    return File(executable=executable, size=len(data), sha256=sha256(data))


def test_an_empty_folder_is_these_bytes() -> None:
    assert b"".join(serialise(EMPTY, lambda _, __: [])) == EMPTY_FOLDER_NAR


@pytest.mark.parametrize(
    "spec",
    [
        ODD,
        {},
        {b"a": DIRECTORY},
        {b"a/b/c/d/e": DIRECTORY, b"a/b/c2": DIRECTORY, b"z": Symlink(b"a")},
        {b"a/b/c": Plain(b"1"), b"b": Plain(b"2"), b"b.d/x": Plain(b"3", executable=True)},
    ],
    ids=["odd", "empty", "one-folder", "folders", "files"],
)
def test_a_folder_is_the_bytes_and_the_hash_that_nix_gives(tmp_path: Path, spec: Spec) -> None:
    write_folder(tmp_path / "tree", spec)
    data = nar(spec)
    assert data == nix_dump(tmp_path / "tree")
    assert sha256(data).hex == nix_hash(tmp_path / "tree")


def test_the_page_of_the_format_gives_these_bytes_and_digests(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "formats" / "tree-digest.md").read_text()
    table = re.search(r"these 96 bytes:\n\n```text\n(.*?)```", page, re.DOTALL)
    script = re.search(r"```sh\n(.*?)```", page, re.DOTALL)
    assert table is not None
    assert script is not None
    assert bytes.fromhex(re.sub(r'".*', "", table[1], flags=re.MULTILINE)) == EMPTY_FOLDER_NAR
    subprocess.run(["bash", "-ec", script[1]], check=True, cwd=tmp_path)
    with scan_folder(tmp_path / "tree") as scan:
        store = MemoryStore()
        listing = add_members(store, scan.members())
    data = b"".join(serialise(listing, lambda _, file: store.read(file)))
    assert re.findall(r"^sha256:[0-9a-f]{64}$", page, re.MULTILINE) == [
        str(sha256(EMPTY_FOLDER_NAR)),
        str(sha256(data)),
    ]
    assert f"serialises to {len(data)} bytes" in page


@pytest.mark.parametrize("size", [*range(18), 2**16 - 1, 2**16, 2**16 + 1, 2**20 - 1, 2**20, 3 * 2**20 + 5])
def test_contents_of_any_size_are_padded_as_nix_pads_them(tmp_path: Path, size: int) -> None:
    spec = {b"a": Plain(os.urandom(size)), b"b": Plain(b"after")}
    write_folder(tmp_path / "tree", spec)
    assert nar(spec) == nix_dump(tmp_path / "tree")


@pytest.mark.parametrize("executable", [False, True])
def test_a_tree_of_one_file_is_what_nix_gives_for_the_file(tmp_path: Path, executable: bool) -> None:
    write_folder(tmp_path / "tree", {b"f": Plain(b"text", executable)})
    listing = single(of_text(b"text", executable=executable))
    assert nar_digest(listing, lambda _, __: [b"text"]).hex == nix_hash(tmp_path / "tree" / "f")


def test_a_tree_of_one_link_is_what_nix_gives_for_the_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    data = b"".join(serialise(single(Symlink(b"nowhere")), lambda _, __: []))
    assert data == nix_dump(tmp_path / "link")


def test_group_and_other_modes_times_and_hard_links_do_not_count(tmp_path: Path) -> None:
    write_folder(tmp_path / "tree", {b"a": Plain(b"x"), b"b": Plain(b"x"), b"c/d": Plain(b"y", executable=True)})
    before = nix_hash(tmp_path / "tree")
    (tmp_path / "tree" / "b").unlink()
    (tmp_path / "tree" / "b").hardlink_to(tmp_path / "tree" / "a")
    (tmp_path / "tree" / "a").chmod(0o600)
    (tmp_path / "tree" / "c" / "d").chmod(0o711)
    (tmp_path / "tree" / "c").chmod(0o700)
    os.utime(tmp_path / "tree" / "c", (1, 1))
    expected = sha256(nar({b"a": Plain(b"x"), b"b": Plain(b"x"), b"c/d": Plain(b"y", executable=True)})).hex
    assert nix_hash(tmp_path / "tree") == before == expected


@pytest.mark.parametrize("pieces", [[b"text"], [b"t", b"", b"ext"], [b"te", b"xt", b""], [bytearray(b"text")]])
def test_how_contents_are_cut_does_not_count(pieces: Iterable[bytes]) -> None:
    listing = Listing.of({b"a": of_text(b"text")})
    assert nar_digest(listing, lambda _, __: pieces) == nar_digest(listing, lambda _, __: [b"text"])


@pytest.mark.parametrize("pieces", [[], [b"tex"], [b"text", b"s"], [b"x" * 2**17]])
def test_contents_of_another_size_than_listed_are_an_error(pieces: list[bytes]) -> None:
    listing = Listing.of({b"a": of_text(b"text")})
    with pytest.raises(ValueError, match="bytes read, 4 listed"):
        nar_digest(listing, lambda _, __: pieces)


def test_large_contents_pass_through_without_being_gathered() -> None:
    size = 64 << 20
    chunk = bytes(1 << 20)
    listing = Listing.of({b"a": File(executable=False, size=size, sha256=sha256(b""))})
    largest = max(len(piece) for piece in serialise(listing, lambda _, __: (chunk for _ in range(64))))
    assert largest == len(chunk)


def test_many_small_files_are_gathered_into_few_pieces() -> None:
    listing = Listing.of({b"%04d" % index: of_text(b"x") for index in range(5000)})
    pieces = list(serialise(listing, lambda _, __: [b"x"]))
    assert len(pieces) < sum(map(len, pieces)) // 2**15


def test_frames_and_contents_together_are_the_nar() -> None:
    store = MemoryStore()
    listing = add_members(store, members_of(ODD))
    joined = b"".join(
        head + (b"".join(store.read(file)) if file is not None else b"") for head, _, file in frames(listing)
    )
    magic = (13).to_bytes(8, "little") + b"nix-archive-1\0\0\0"
    assert magic + joined == nar(ODD)


def test_a_folder_nested_500_deep_is_written_without_recursion(tmp_path: Path) -> None:
    deep = b"/".join([b"d"] * 500)
    write_folder(tmp_path / "tree", {deep: DIRECTORY})
    assert nar({deep: DIRECTORY}) == nix_dump(tmp_path / "tree")
