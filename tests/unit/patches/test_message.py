# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.patches.header import notes_of
from derive.patches.message import (
    author_of,
    message_of,
    new_header,
    new_name,
    read_message,
    same_header,
    summary_of,
    upstream_message,
    with_summary,
)
from derive.patches.model import Header

HEADER = """\
Description: Do the thing
 It was not done.
 .
 Now it is.
Author: Ä. Person <a@example.org>
Origin: vendor
SPDX-License-Identifier: MIT
When-To-Drop: never
Signed-off-by: Ä. Person <a@example.org>

""".encode()


def test_a_header_comes_back_from_its_message() -> None:
    said = read_message(message_of("0001-x.patch", HEADER))
    assert said.subject == "Do the thing"
    assert said.names == ("0001-x.patch",)
    assert said.header == HEADER.rstrip(b"\n")


def test_a_patch_without_a_header_is_called_by_its_name() -> None:
    assert message_of("0001-x.patch", b"") == b"0001-x.patch\n\nDerive-Patch: 0001-x.patch\n"
    assert read_message(message_of("0001-x.patch", b"")).header == b""


def test_a_squashed_message_holds_both_names_and_both_headers() -> None:
    both = message_of("0001-x.patch", HEADER) + b"\n" + message_of("0002-y.patch", b"Description: Other\n")
    said = read_message(both)
    assert said.names == ("0001-x.patch", "0002-y.patch")
    assert b"Do the thing" in said.header
    assert b"Description: Other" in said.header


def test_what_is_signed_below_the_name_is_kept() -> None:
    said = read_message(message_of("0001-x.patch", b"Description: x\n") + b"Signed-off-by: A <a@b>\n")
    assert said.header == b"Description: x\n\nSigned-off-by: A <a@b>"


def test_spaces_and_empty_lines_that_git_tidies_make_no_other_header() -> None:
    assert same_header(b"a  \n\n\nb\n", b"a\n\nb")
    assert not same_header(b"a\nb", b"a\n\nb")


def test_a_new_summary_is_put_where_the_old_one_stood() -> None:
    changed = with_summary(HEADER, "Do it")
    assert summary_of(changed) == "Do it"
    assert changed.split(b"\n")[1:] == HEADER.split(b"\n")[1:]
    assert with_summary(b"free text\n", "Do it") == b"free text\n"


def test_a_new_header_says_what_the_commit_said_and_what_is_still_to_be_written() -> None:
    header = new_header(read_message(b"Fix it\n\nBecause.\n\nTruly.\n"), "A <a@b>")
    notes = notes_of(Header(text=header))
    assert (notes.summary, notes.description, notes.author) == ("Fix it", "Because.\n\nTruly.", "A <a@b>")
    assert notes.missing == ("Origin", "When-To-Drop")


def test_an_upstream_reads_the_description_and_who_signed_and_no_field_of_ours() -> None:
    assert upstream_message("0001-x.patch", HEADER).decode() == (
        "Do the thing\n\nIt was not done.\n\nNow it is.\n\nSigned-off-by: Ä. Person <a@example.org>\n"
    )
    assert upstream_message("0001-x.patch", b"") == b"0001-x\n"


@pytest.mark.parametrize(
    ("author", "expected"),
    [
        ("A B <a@b>", (b"A B", b"a@b")),
        ("A B", (b"A B", b"")),
        ("a@b <", (b"a@b", b"")),
        ("One <1@x>, Two <2@x>", (b"One", b"1@x")),
        ("", (b"unknown", b"unknown")),
    ],
)
def test_authors_as_git_wants_them(author: str, expected: tuple[bytes, bytes]) -> None:
    header = f"Description: x\nAuthor: {author}\n".encode() if author else b"Description: x\n"
    assert author_of(header) == expected


def test_new_names_go_on_counting_and_are_free() -> None:
    assert new_name("Fix: the Thing!", ["0001-a.patch", "0007-b.patch"]) == "0008-fix-the-thing.patch"
    assert new_name("", []) == "0001-change.patch"
    assert new_name("é" * 80, []) == "0001-change.patch"
    assert len(new_name("word " * 40, [])) < 64
