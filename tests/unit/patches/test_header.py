# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from derive.patches.header import Notes, decoded, notes_of, printable, render_notes, subject
from derive.patches.model import Header
from derive.patches.parse import parse_patch

OURS = b"""\
Description: Print one line per size
 A report of a run over all sizes
 is lost.
 .
 The rest stays.
Author: Some One <one@example.org>
Origin: vendor
Forwarded: no
SPDX-License-Identifier: MIT
When-To-Drop: when it prints
 them itself

"""

GIT = b"""\
From 355fe14b7bfb021deedbb07b07913db82ace48fc Mon Sep 17 00:00:00 2001
From: =?UTF-8?q?Zo=C3=AB?= <z@example.org>
Date: Mon, 30 Nov 2026 00:33:28 +0000
Subject: [PATCH v2 3/7] net: take
 the other way

note: this is prose
Origin: upstream, commit 355fe14

Signed-off-by: Zoe
---
 a | 2 +-
 Origin: not this
"""


def notes(text: bytes) -> Notes:
    return notes_of(parse_patch("p", text + b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n").header)


def test_every_field_is_read_and_folded_ones_are_one_line() -> None:
    assert notes(OURS) == Notes(
        summary="Print one line per size",
        description="A report of a run over all sizes\nis lost.\n\nThe rest stays.",
        author="Some One <one@example.org>",
        origin="vendor",
        forwarded="no",
        licence="MIT",
        when_to_drop="when it prints them itself",
    )


def test_a_header_as_git_writes_it_is_read_and_what_stands_below_its_mark_is_not() -> None:
    assert notes(GIT) == Notes(
        summary="net: take the other way",
        description="note: this is prose\n\nSigned-off-by: Zoe",
        author="Zoë <z@example.org>",
        origin="upstream, commit 355fe14",
    )


def test_a_header_without_fields_is_all_description() -> None:
    assert notes(b"net: take the other way\n\nIt is: shorter.\n") == Notes(
        summary="net: take the other way", description="It is: shorter."
    )
    assert notes(b"") == Notes(summary="")


def test_a_header_that_reads_back_is_what_is_rendered() -> None:
    assert render_notes(notes(OURS)) == OURS.replace(b" them itself\n", b"").replace(
        b"prints\n", b"prints them itself\n"
    )


def test_what_lacks_and_what_is_marked_to_be_written_is_missing() -> None:
    assert notes(OURS).missing == ()
    assert notes(b"Description: x\nOrigin: TODO: is it theirs?\n").missing == ("Origin", "When-To-Drop")
    assert Notes(summary="", origin="TODOS of theirs", when_to_drop="TODO").missing == ("Description", "When-To-Drop")


def test_the_first_of_two_fields_counts() -> None:
    assert notes(b"Description: a\nOrigin: one\nOrigin: two\n").origin == "one"


def test_nothing_in_a_header_moves_a_terminals_cursor() -> None:
    found = notes(b"Description: a\x1b[2J b\x07\nAuthor: \xff\n")
    assert (found.summary, found.author) == ("a\\x1b[2J b\\x07", "\\xff")
    assert printable("é\u202ex\ty") == "é\\u202ex y"


def test_prefixes_of_mail_go_and_other_brackets_stay() -> None:
    assert subject("Re: [RFC PATCH v3 0/2] [dispatch] x") == "[dispatch] x"
    assert subject("[dispatch] x") == "[dispatch] x"
    assert subject("patch: x") == "patch: x"


def test_words_in_an_encoding_that_is_none_stay_as_they_are() -> None:
    assert decoded("=?nonsense?q?a?= b") == "=?nonsense?q?a?= b"


LINES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S"))).map(str.strip).filter(str.isprintable)
PARAGRAPHS = st.lists(LINES, max_size=6).map(lambda rows: "\n".join(row for row in rows if row != ".").strip("\n"))


@given(summary=LINES, description=PARAGRAPHS, origin=LINES, drop=LINES)
def test_notes_come_back_from_what_they_are_rendered_to(summary: str, description: str, origin: str, drop: str) -> None:
    wanted = Notes(summary=summary, description=description, origin=origin, when_to_drop=drop)
    assert notes_of(Header(text=render_notes(wanted))) == wanted
