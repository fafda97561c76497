# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import os
import quopri
import subprocess
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.patches.apply import apply_series
from derive.patches.mailbox import Mail, read_mailbox
from derive.patches.model import FileState
from derive.patches.parse import parse_patch

DIFF = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n 1\r\n-- x\n+\xff \n 3\n"
MAIL = b"""\
From 355fe14b7bfb021deedbb07b07913db82ace48fc Mon Sep 17 00:00:00 2001
From: =?UTF-8?q?Zo=C3=AB?= <z@example.org>
Date: Mon, 30 Nov 2026 00:33:28 +0000
Subject: [PATCH 2/3] net: the
 other way

Words: of the mail.

  indented

Signed-off-by: Zoe
---
 f | 2 +-
 1 file changed

"""
SIGNATURE = b"-- \n2.39.5\n\n"
COMMIT = "355fe14b7bfb021deedbb07b07913db82ace48fc"


def read(data: bytes) -> Mail:
    (mail,) = read_mailbox(data, "box")
    return mail


def refusal(data: bytes) -> str:
    with pytest.raises(InputErrors) as caught:
        read_mailbox(data, "box")
    (problem,) = caught.value.problems()
    return f"{problem.where}: {problem.message}"


def test_a_mail_is_read_into_its_parts_and_the_changes_are_kept_byte_for_byte() -> None:
    assert read(MAIL + DIFF + SIGNATURE) == Mail(
        number=1,
        subject="net: the other way",
        author="Zoë <z@example.org>",
        text="Words: of the mail.\n\n  indented\n\nSigned-off-by: Zoe",
        commit=COMMIT,
        diff=DIFF,
    )


def test_a_removed_line_that_looks_like_a_signature_is_none() -> None:
    diff = b"--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n a\n-- \n"
    assert read(MAIL + diff + SIGNATURE).diff == diff
    assert read(MAIL + diff).diff == diff


def test_mails_are_told_apart_and_one_without_changes_has_none() -> None:
    cover = MAIL.replace(b"2/3", b"0/3").replace(COMMIT.encode(), b"0" * 40) + SIGNATURE
    quoted = MAIL.replace(b"  indented", b"From here on it is worse.\nFrom x at y") + DIFF
    first, second, third = read_mailbox(cover + quoted + SIGNATURE + MAIL + DIFF, "box")
    assert [mail.number for mail in (first, second, third)] == [1, 2, 3]
    assert (first.diff, second.diff, third.diff) == (b"", DIFF, DIFF)
    assert "From here on it is worse." in second.text
    assert (first.commit, third.commit) == ("", COMMIT)


def test_fields_at_the_top_of_the_words_hold_instead_of_the_mails() -> None:
    words = b"From: Real Author <r@example.org>\nSubject: the real one\n\nFrom: this is text\n"
    mail = read(MAIL.replace(b"Words: of the mail.\n", words) + DIFF)
    assert (mail.author, mail.subject) == ("Real Author <r@example.org>", "the real one")
    assert mail.text.startswith("From: this is text\n\n  indented")
    assert read(MAIL.split(b"Words")[0] + b"Subject: all there is\n" + DIFF).text == ""


def test_a_single_mail_needs_no_line_above_it() -> None:
    mail = read(MAIL.partition(b"\n")[2] + DIFF)
    assert (mail.commit, mail.diff) == ("", DIFF)


def test_a_mail_with_crlf_throughout_is_read_without_them() -> None:
    plain = MAIL + DIFF.replace(b"\r\n", b"\n")
    assert read(plain.replace(b"\n", b"\r\n")) == read(plain)


def test_a_mail_with_some_lines_in_crlf_is_refused() -> None:
    assert "some lines end in CRLF" in refusal(MAIL.replace(b"Date: Mon", b"X: y\r\nDate: Mon") + DIFF)


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable"])
def test_the_encoding_of_a_mail_is_undone(encoding: str) -> None:
    head, _, body = (MAIL + DIFF).partition(b"\n\n")
    if encoding == "base64":
        body = base64.encodebytes(body)
    else:
        body = quopri.encodestring(body.replace(b"\r", b"\x01")).replace(b"=01", b"=0D")
    head += f"\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: {encoding}".encode()
    assert read(head + b"\n\n" + body) == read(MAIL + DIFF)


def test_words_in_another_character_set_are_read_and_changes_stay_bytes() -> None:
    head, _, body = (MAIL + DIFF).partition(b"\n\n")
    head += b"\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: 8bit"
    mail = read(head + b"\n\n" + body.replace(b"Words", b"W\xf6rds"))
    assert mail.text.startswith("Wörds")
    assert mail.diff == DIFF


def test_a_mail_of_pictures_is_refused() -> None:
    head, _, body = (MAIL + DIFF).partition(b"\n\n")
    kind = b"\nContent-Type: multipart/mixed; boundary=x"
    picture = b"\n\n--x\nContent-Type: text/plain\n\n" + body + b"\n--x\nContent-Type: image/png\n\nPNG\n--x--\n"
    assert refusal(head + kind + picture) == "box: mail 1: a mail whose parts are not all text"


@pytest.mark.parametrize("data", [b"", b"\n", DIFF, b"once upon a time\n", b"\xff\xfe"])
def test_what_is_no_mail_is_refused(data: bytes) -> None:
    assert "not a mail" in refusal(data)


ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Zoë, with a very long name that git folds in the header of its mail, twice over",
    "GIT_AUTHOR_EMAIL": "z@example.org",
    "GIT_COMMITTER_NAME": "c",
    "GIT_COMMITTER_EMAIL": "c@example.org",
}


def git(repository: Path, *arguments: str) -> bytes:
    done = subprocess.run(
        ["git", "-c", "core.autocrlf=false", *arguments],
        cwd=repository,
        env=ENVIRONMENT,
        capture_output=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("options", [(), ("--attach",), ("--inline",), ("--signature=one\n-- \ntwo",), ("-U1", "-p")])
def test_what_git_mails_gives_the_tree_that_was_committed(tmp_path: Path, options: tuple[str, ...]) -> None:
    files = {"lf": b"a\nb\nc\n", "crlf": b"a\r\nb\r\nc\r\n", "bytes": b"\xff\n\xfe", "dash": b"x\n- \n-- \ny\n"}
    git(tmp_path, "init", "--quiet", ".")
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "base")
    after = {name: data.replace(b"b", b"\xc3\xa9 -- ").replace(b"- \n", b"") for name, data in files.items()}
    for name, data in after.items():
        (tmp_path / name).write_bytes(data + b"more")
    long = "Änderung mit einem sehr langen Betreff, den git in mehrere Zeilen faltet und kodiert, wie es Post verlangt"
    git(tmp_path, "commit", "--quiet", "-a", "-m", f"{long}\n\nText.\n\n- a list\n- of things\n")
    (mail,) = read_mailbox(git(tmp_path, "format-patch", "--stdout", "-1", *options), "box")
    assert mail.subject == long
    assert mail.author == f"{ENVIRONMENT['GIT_AUTHOR_NAME']} <z@example.org>"
    assert mail.text == "Text.\n\n- a list\n- of things"
    assert mail.commit == git(tmp_path, "rev-parse", "HEAD").decode().strip()
    states = {name.encode(): FileState(contents=data) for name, data in files.items()}
    changes = apply_series([parse_patch("p", mail.diff).operations], states.get).changes
    assert changes == {name.encode(): FileState(contents=data + b"more") for name, data in after.items()}
