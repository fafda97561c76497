# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.archives.notes import Dropped, Note, Replaced, below, from_text, mode_note, summary, to_text


@pytest.mark.parametrize(("mode", "folder"), [(0o644, False), (0o755, False), (0o100755, False), (0o755, True)])
def test_an_ordinary_mode_is_no_note(mode: int, folder: bool) -> None:
    assert mode_note(b"a", mode, folder=folder) is None


@pytest.mark.parametrize(
    ("mode", "folder", "what"),
    [
        (0o4755, False, "mode 4755, setuid"),
        (0o2755, True, "mode 2755, setgid"),
        (0o1777, True, "mode 1777, sticky"),
        (0o6755, False, "mode 6755, setuid, setgid"),
        (0o600, False, "mode 0600"),
        (0o644, True, "mode 0644"),
        (0o700, True, "mode 0700"),
        (0o664, False, "mode 0664"),
    ],
)
def test_a_mode_that_a_tree_cannot_keep_is_named(mode: int, folder: bool, what: str) -> None:
    assert mode_note(b"a", mode, folder=folder) == Dropped(b"a", what)


NOTES: list[Note] = [Replaced(b"z"), Dropped(b"a\xff%", "mode 0600"), Dropped(b"", "mode 0700"), Replaced(b"z")]


def test_the_text_is_sorted_holds_no_line_twice_and_reads_back() -> None:
    text = to_text(NOTES)
    assert text == b"dropped\t.\tmode 0700\ndropped\ta%FF%25\tmode 0600\nreplaced\tz\n"
    assert set(from_text(text)) == set(NOTES)
    assert to_text(reversed(NOTES)) == text


@pytest.mark.parametrize("text", [b"dropped\ta\n", b"x\n", b"replaced\t%zz\n", b"\xff\n"])
def test_text_that_is_no_note_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - every kind of wrong text
        from_text(text)


def test_a_note_moves_below_a_folder() -> None:
    assert below(b"data", Dropped(b"", "mode 0700")) == Dropped(b"data", "mode 0700")
    assert below(b"data", Replaced(b"a")) == Replaced(b"data/a")


def test_a_summary_names_every_special_bit_and_counts_plain_modes() -> None:
    notes: list[Note] = [Dropped(b"f%03d" % n, "mode 0664") for n in range(100)]
    notes += [Dropped(b"s%d" % n, "mode 4755, setuid") for n in range(9)]
    lines = summary(notes)
    assert sum("setuid" in line for line in lines) == 9
    assert [line for line in lines if "0664" in line][-1] == "dropped mode 0664: and 95 more"
    assert len(lines) == 9 + 6
