# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import bz2
import gzip
import importlib._bootstrap_external as loader
import lzma
import marshal
import struct
import zipfile
from collections.abc import Callable

import pytest

from derive.differ.differ import differ
from derive.differ.model import Content, Limits
from derive.errors import Missing
from support.differing import tarred, told, zipped
from support.elves import elf

WHEEL = {"pkg/a.txt": b"hello\n", "pkg/b.py": b"x = 1\n"}


def pyc(source: str, *, name: str = "a.py", checked: bool = True, digest: bytes = b"12345678") -> bytes:
    return bytes(loader._code_to_hash_pyc(compile(source, name, "exec"), digest, checked))  # type: ignore[attr-defined]


def test_equal_files_have_no_difference() -> None:
    assert differ("a", b"same", b"same") == []


def test_bytes_are_told_by_offset_count_and_a_window() -> None:
    text = told("blob", b"\0" * 100 + b"abc", b"\0" * 100 + b"abd")
    assert text.splitlines()[0] == "first differs at byte 102 (0x66); 1 byte of 103 differs"
    assert text.splitlines()[1:] == [
        "- 00000066  63                                               |c|",
        "+ 00000066  64                                               |d|",
    ]


def test_bytes_far_apart_are_shown_in_windows_of_their_own() -> None:
    text = told("blob", b"\0a" + b"\0" * 90 + b"b", b"\0x" + b"\0" * 90 + b"y")
    assert "2 bytes of 93 differ" in text
    assert text.count("\n- ") == 2


def test_a_file_that_only_goes_on_is_told_so() -> None:
    text = told("blob", b"\0" * 10, b"\0" * 12)
    assert text == "size: 10 -> 12 bytes\nthe first is how the other begins: they part at its end, byte 10"
    assert told("blob", b"\0" * 12, b"\0" * 10).endswith(
        "the second is how the other begins: they part at its end, byte 10"
    )


def test_pieces_may_be_cut_anywhere() -> None:
    def cut(data: bytes, size: int) -> Content:
        return Content(lambda: (data[at : at + size] for at in range(0, len(data), size)))

    first, second = b"\0\1" * 50 + b"a" * 33, b"\0\1" * 50 + b"a" * 20 + b"b" * 13
    assert differ("x", cut(first, 7), cut(second, 11)) == differ("x", first, second)


def test_texts_are_told_by_line() -> None:
    assert told("a.txt", b"a\nb\nc\n", b"a\nB\nc\n") == "line 1\n a\n-b\n+B\n c"


def test_long_texts_are_told_near_the_first_line_that_differs() -> None:
    first = [b"%d" % number for number in range(9000)]
    second = [*first[:7000], b"other", *first[7001:]]
    text = told("a.txt", b"\n".join(first), b"\n".join(second))
    assert "the first that differs is line 7001" in text
    assert "-7000\n+other" in text


def test_json_is_told_by_the_paths_of_its_keys() -> None:
    text = told("a.json", b'{"a": {"b": [1, 2]}, "x": 0}', b'{"a": {"b": [1, 3, 4]}, "c": {"d": 1}}')
    assert text.splitlines() == [
        "a.b[1]: 2 -> 3",
        "a.b: 2 -> 3 elements",
        '+ c = {"d": 1}',
        "- x = 0",
    ]


def test_json_of_equal_values_is_told_as_text() -> None:
    assert '-{"a":1}' in told("a.json", b'{"a":1}\n', b'{"a": 1}\n')
    assert "True" not in told("a.json", b'{"a":1}\n', b'{"a":true}\n')


def test_a_wheel_is_told_by_its_members_and_what_differs_in_them() -> None:
    text = told("w.whl", zipped(WHEEL), zipped({**WHEEL, "pkg/a.txt": b"hellO\n"}))
    assert text.splitlines() == [
        "pkg/a.txt: crc 363a3020 -> a3be1482",
        "pkg/a.txt: other contents",
        "  line 1",
        "  -hello",
        "  +hellO",
    ]


def test_members_that_came_went_or_moved_are_named() -> None:
    text = told("w.zip", zipped(WHEEL), zipped({"pkg/new": b"", "pkg/b.py": b"x = 1\n"}))
    assert "- pkg/a.txt  6 bytes\n+ pkg/new  0 bytes" in text
    assert told("w.zip", zipped(WHEEL), zipped(dict(reversed(WHEEL.items())))) == "the members stand in another order"


def test_times_and_methods_of_members_are_facts() -> None:
    assert "pkg/a.txt: time 1980-01-01 00:00:00 -> 1999-01-01 00:00:00" in told(
        "w.zip", zipped(WHEEL), zipped(WHEEL, 1999)
    )
    packed = told("w.zip", zipped(WHEEL), zipped(WHEEL, method=zipfile.ZIP_DEFLATED))
    assert "pkg/a.txt: method stored -> deflate" in packed


def test_a_tar_is_told_with_what_a_tree_forgets() -> None:
    text = told("a.tar", tarred(WHEEL), tarred(WHEEL, 0o755, 9))
    assert "pkg/a.txt: mode 0644 -> 0755, time 0 -> 9" in text


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress, lambda data: data])
def test_a_nested_archive_of_equal_size_is_told_down_to_its_inner_file(pack: Callable[[bytes], bytes]) -> None:
    def nested(word: bytes) -> bytes:
        return pack(tarred({"src/third-party.zip": zipped({"deep/data.tar": tarred({"x/y.txt": word + b"\n"})})}))

    first, second = nested(b"one"), nested(b"two")
    text = told("a.tar.gz", first, second)
    places = ("src/third-party.zip: other contents", "  deep/data.tar: other contents", "    x/y.txt: other contents")
    for part in (*places, "      -one\n      +two"):
        assert part in text


def test_the_same_bytes_compressed_otherwise_are_told_so() -> None:
    text = told("a.gz", gzip.compress(b"a" * 999, 9, mtime=1), gzip.compress(b"a" * 999, 9, mtime=7))
    assert text.startswith("gzip header, time: 1 -> 7\nunpacks to the same bytes: compressed otherwise\n")


def test_archives_nested_too_deep_are_compared_as_bytes() -> None:
    def deep(data: bytes) -> bytes:
        for _ in range(4):
            data = zipped({"inner.zip": data})
        return data

    text = told("a.zip", deep(b"one"), deep(b"two"), Limits(depth=3))
    assert "not opened: 3 archives deep" in text
    assert "first differs at byte" in text


def test_a_debian_package_is_opened() -> None:
    def deb(word: bytes) -> bytes:
        data = gzip.compress(tarred({"./usr/bin/x": word}), mtime=0)
        header = b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (b"data.tar.gz", 0, 0, 0, 0o644, len(data))
        return b"!<arch>\n" + header + data + b"\n" * (len(data) % 2)

    assert "  ./usr/bin/x: other contents\n    line 1\n    -one" in told("x.deb", deb(b"one"), deb(b"two"))


def test_an_elf_file_is_told_by_sections_and_libraries() -> None:
    text = told("lib.so", elf(needed=["liba.so.1"]), elf(needed=["libb.so.2"]))
    assert "needed libraries: liba.so.1 -> libb.so.2" in text
    assert "section .dynstr: contents" in text


def test_byte_code_is_told_by_code_objects() -> None:
    text = told("a.pyc", pyc("def f(x):\n  return x + 1\n"), pyc("def f(x):\n  return x + 2\n"))
    assert text == "f: consts[1]: 1 -> 2"


def test_headers_of_byte_code_are_told() -> None:
    text = told("a.pyc", pyc("a = 1"), pyc("a = 1", checked=False, digest=b"87654321"))
    assert text.splitlines() == [
        "loaded by hash, checked -> by hash, not checked",
        f"hash of its source: {b'12345678'.hex()} -> {b'87654321'.hex()}",
    ]
    assert "<module>: filename: 'a.py' -> 'b.py'" in told("a.pyc", pyc("a = 1"), pyc("a = 1", name="b.py"))


def test_byte_code_that_differs_only_in_what_is_shared_is_told_so() -> None:
    first = pyc("def f(x):\n  return (x, 'word'), 'word'\n")
    code = compile("def f(x):\n  return (x, 'word'), 'word'\n", "a.py", "exec")
    text = told("a.pyc", first, first[:16] + marshal.dumps(code, 2))
    assert text.startswith("the same objects, marshalled otherwise: which are shared")
    assert "first differs at byte 16" in text


def test_byte_code_of_an_unknown_python_is_compared_as_bytes() -> None:
    head = struct.pack("<H", 3999) + b"\r\n" + bytes(12)
    text = told("a.pyc", head + b"one", head + b"two")
    assert "not read as byte code: byte code of versions that are not compared here" in text
    assert "first differs at byte 16" in text


def test_a_file_of_another_kind_is_named() -> None:
    assert told("a", b"text\n", b"\x7fELF\2\1\1").startswith("text -> ELF\nsize: 5 -> 7 bytes\nfirst differs at byte 0")


@pytest.mark.parametrize(
    "magic", [b"\x7fELF", b"PK\x03\x04", b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"BZh9", b"\x28\xb5\x2f\xfd", b"!<arch>\n"]
)
def test_what_only_begins_as_a_format_is_compared_as_bytes(magic: bytes) -> None:
    text = told("a", magic + b"\1" * 60, magic + b"\2" * 60)
    assert "not read as " in text
    assert f"first differs at byte {len(magic)} " in text


def test_rows_and_lines_beyond_the_limits_are_counted() -> None:
    files = {f"f{number:03}": b"a" for number in range(50)}
    text = told("w.zip", zipped(files), zipped(dict.fromkeys(files, b"b")), Limits(rows=5, lines=9))
    assert "... and 45 more\n" in text
    assert text.splitlines()[-1].startswith("... and ")


def test_what_unpacks_to_too_much_is_stopped_and_said() -> None:
    bombs = [gzip.compress(b"\0" * (8 << 20) + word, mtime=0) for word in (b"one", b"two")]
    assert told("a.gz", bombs[0], bombs[1], Limits(read_bytes=1 << 20)).endswith(
        "stopped: more than 1.0 MB would be read"
    )


def test_what_is_too_large_to_hold_is_compared_as_bytes() -> None:
    text = told("a.json", b"[1" + b" " * 5000 + b"]", b"[2" + b" " * 5000 + b"]", Limits(held_bytes=4096))
    assert text.startswith("not read as JSON: larger than 4.1 kB\nfirst differs at byte 1 ")


def test_control_characters_are_escaped() -> None:
    assert "\x1b" not in told("w.zip", zipped({"a\x1b[2J": b"1"}), zipped({"a\x1b[2J": b"2"}))


def test_what_cannot_be_read_at_all_is_raised() -> None:
    def gone() -> tuple[bytes, ...]:
        raise Missing("gone")

    with pytest.raises(Missing):
        differ("a", Content(gone), b"x")
