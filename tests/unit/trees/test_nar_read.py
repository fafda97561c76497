# SPDX-License-Identifier: Apache-2.0
"""What is nearly a NAR is refused in words that say what is wrong, and where."""

from __future__ import annotations

import pytest

from derive.errors import Corrupt
from derive.store.memory import MemoryStore
from derive.trees.listing import Directory, File, Symlink
from derive.trees.nar_read import NarLimits, read_nar


def string(text: bytes, filler: bytes = b"\0") -> bytes:
    return len(text).to_bytes(8, "little") + text + filler * (-len(text) % 8)


def words(*texts: bytes) -> bytes:
    return b"".join(map(string, texts))


def file(contents: bytes, *, executable: bytes = b"") -> bytes:
    mark = words(b"executable", b"") if executable else b""
    return words(b"(", b"type", b"regular") + mark + words(b"contents", contents, b")")


def entry(name: bytes, node: bytes) -> bytes:
    return words(b"entry", b"(", b"name", name, b"node") + node + words(b")")


def folder(*entries: bytes) -> bytes:
    return words(b"(", b"type", b"directory") + b"".join(entries) + words(b")")


def link(target: bytes) -> bytes:
    return words(b"(", b"type", b"symlink", b"target", target, b")")


def nar(node: bytes) -> bytes:
    return words(b"nix-archive-1") + node


def test_files_links_and_folders_are_read() -> None:
    listing = read_nar(MemoryStore(), [nar(folder(entry(b"a", file(b"x", executable=b"1")), entry(b"l", link(b"a"))))])
    assert [(path, type(one)) for path, one in listing.items()] == [(b"", Directory), (b"a", File), (b"l", Symlink)]
    assert next(listing.files())[1].executable


FAULTS = {
    "another format": (words(b"nix-archive-2") + file(b""), "the beginning of a NAR is expected"),
    "entries out of order": (
        nar(folder(entry(b"b", file(b"")), entry(b"a", file(b"")))),
        "'a' does not come after 'b'",
    ),
    "the same name twice": (
        nar(folder(entry(b"a", file(b"")), entry(b"a", link(b"x")))),
        "'a' does not come after 'a'",
    ),
    "a name that climbs": (nar(folder(entry(b"..", file(b"")))), "'..' is no name of a tree"),
    "a name with a slash": (nar(folder(entry(b"a/b", file(b"")))), "'a/b' is no name of a tree"),
    "a name with a zero byte": (nar(folder(entry(b"a\0", file(b"")))), "'a%00' is no name of a tree"),
    "an empty name": (nar(folder(entry(b"", file(b"")))), "'' is no name of a tree"),
    "a link to nowhere at all": (nar(link(b"")), "the root is a link without a target"),
    "padding that says something": (
        nar(words(b"(", b"type", b"regular", b"contents") + string(b"abc", b"!") + words(b")")),
        "zero bytes are expected",
    ),
    "a device": (nar(words(b"(", b"type", b"blockdev", b")")), "a regular file, a link or a folder is expected"),
    "an executable that is not one": (
        nar(words(b"(", b"type", b"regular", b"executable", b"1", b"contents", b"", b")")),
        "the word executable is expected",
    ),
    "contents without end": (
        nar(words(b"(", b"type", b"regular", b"contents") + (1 << 63).to_bytes(8, "little")),
        "a file of 9223372036854775808 bytes",
    ),
    "a file that is longer than it is": (
        nar(words(b"(", b"type", b"regular", b"contents") + (1 << 40).to_bytes(8, "little")),
        "it ends early",
    ),
    "a name that is too long": (nar(folder(entry(b"x" * 200, file(b"")))), "a name of 200 bytes, more than 100"),
    "a path that is too long": (
        nar(folder(entry(b"x" * 60, folder(entry(b"y" * 60, file(b"")))))),
        "a path of 121 bytes, more than 100",
    ),
    "more entries than are allowed": (nar(folder(*(entry(b"%02d" % n, file(b"")) for n in range(20)))), "more than 20"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_no_nar_of_a_tree_is_refused_by_what_is_wrong_with_it(fault: str) -> None:
    data, words_of_it = FAULTS[fault]
    with pytest.raises(Corrupt) as caught:
        read_nar(MemoryStore(), [data], limits=NarLimits(entries=20, path_bytes=100))
    assert words_of_it in str(caught.value)


def test_the_place_of_a_fault_is_said_in_bytes() -> None:
    with pytest.raises(Corrupt) as caught:
        read_nar(MemoryStore(), [nar(file(b"abc"))[:-16] + string(b"(")])
    assert caught.value.detail == ("before    byte 120",)
