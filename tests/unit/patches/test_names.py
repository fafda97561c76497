# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.patches.names import FileName, bare_name, file_name, git_names, stripped, unquote
from derive.patches.reader import Refusal


@pytest.mark.parametrize(
    ("quoted", "raw"),
    [
        (b'"a/\\303\\251"', b"a/\xc3\xa9"),
        (b'"a\\tb\\n\\"\\\\"', b'a\tb\n"\\'),
        (b'"\\a\\b\\v\\f\\r\\001"', b"\a\b\v\f\r\x01"),
        (b'""', b""),
    ],
)
def test_c_quoting_is_undone(quoted: bytes, raw: bytes) -> None:
    assert unquote(quoted + b" rest", 1) == (raw, b" rest")


@pytest.mark.parametrize("quoted", [b'"a', b'"a\\x"', b'"\\9"', b'"\\400"', b'"a\\"'])
def test_quoting_that_no_tool_writes_is_refused(quoted: bytes) -> None:
    with pytest.raises(Refusal):
        unquote(quoted, 1)


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (b"a/x", FileName(b"a/x", absent=False)),
        (b"a/x y\t", FileName(b"a/x y", absent=False)),
        (b"a/x\t2026-11-01 10:00:00.123456789 +0100", FileName(b"a/x", absent=False)),
        (b"/dev/null", FileName(b"/dev/null", absent=True)),
        (b"/dev/null\tThu Jan  1 00:00:00 1970", FileName(b"/dev/null", absent=True)),
        (b"a/x\t1970-01-01 00:00:00.000000000 +0000", FileName(b"a/x", absent=True)),
        (b"a/x\t1970-01-01 03:30:00.000000000 +0330", FileName(b"a/x", absent=True)),
        (b"a/x\t1969-12-31 16:00:00 -0800", FileName(b"a/x", absent=True)),
        (b"a/x\t1970-01-01 00:00:00.000000000 +0100", FileName(b"a/x", absent=False)),
        (b"a/x\t1970-01-01 00:00:00.000000001 +0000", FileName(b"a/x", absent=False)),
    ],
)
def test_a_name_ends_at_a_tab_and_time_zero_means_absent_in_any_zone(row: bytes, name: FileName) -> None:
    assert file_name(row, 1) == name


@pytest.mark.parametrize("raw", [b"x", b"/abs/x", b"a/../x", b"a/.git/config", b"a/", b"a//x"])
def test_names_that_do_not_strip_to_a_path_inside_the_tree_are_refused(raw: bytes) -> None:
    with pytest.raises(Refusal):
        stripped(raw, 1)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (b"a/x b/x", (b"x", b"x")),
        (b"a/x y b/x y", (b"x y", b"x y")),
        (b"a/x b/x b/x b/x", (b"x b/x", b"x b/x")),
        (b"a/x b/y", (b"x", b"y")),
        (b'"a/\\377" "b/\\377"', (b"\xff", b"\xff")),
        (b'a/x "b/\\377"', (b"x", b"\xff")),
        (b'"a/\\377" b/x y', (b"\xff", b"x y")),
        (b"a/x y b/x z", None),
    ],
)
def test_both_names_of_a_git_row_are_told_apart_where_they_can_be(
    text: bytes, names: tuple[bytes, bytes] | None
) -> None:
    assert git_names(text, 1) == names


def test_the_name_in_a_rename_row_has_no_folder_to_strip() -> None:
    assert bare_name(b"a/x", 1) == b"a/x"
    assert bare_name(b'"\\303\\251"', 1) == b"\xc3\xa9"
    with pytest.raises(Refusal):
        bare_name(b'"x" y', 1)
    with pytest.raises(Refusal):
        bare_name(b"../x", 1)
