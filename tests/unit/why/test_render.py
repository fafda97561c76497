# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from derive.why.render import Span, line, line_diff, printable, render, text_of


def test_plain_text_has_no_codes_and_colour_has_them_around_what_has_a_style() -> None:
    lines = [(Span("a", "strong"), Span(" b  ")), ()]
    assert render(lines, colour=False) == "a b\n"
    assert render(lines, colour=True) == "\x1b[1ma\x1b[0m b\n"


def test_what_would_move_the_cursor_is_shown_as_an_escape() -> None:
    assert printable("a\x1b[2Jb\tc\r") == "a\\x1b[2Jb\tc\\r"
    assert text_of(b"\xff\x07ok") == "\\xff\\x07ok"


@given(st.binary())
def test_any_bytes_can_be_shown_on_one_line(data: bytes) -> None:
    shown = text_of(data)
    assert "\n" not in shown
    assert "\x1b" not in shown
    shown.encode()


def test_a_diff_names_lines_and_the_end_of_a_file() -> None:
    shown = render(line_diff(b"a\nb\nc\n", b"a\nB\nc"), colour=False).splitlines()
    assert shown == ["line 1", " a", "-b", "-c", "+B", "+c  (no newline at the end)"]


def test_a_diff_that_is_long_is_cut_and_says_so() -> None:
    shown = render(line_diff(None, b"x\n" * 100, limit=10), colour=False).splitlines()
    assert len(shown) == 11
    assert shown[-1] == "... 91 more lines"


def test_a_line_holds_no_control_character() -> None:
    assert line("a\nb")[0].text == "a\\nb"
