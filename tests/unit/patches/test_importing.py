# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from derive.errors import InputErrors, Problem
from derive.patches.importing import Said, import_mails
from derive.patches.load import series_of

COMMIT = "355fe14b7bfb021deedbb07b07913db82ace48fc"


def mail(subject: str, new: str, *, path: str = "f") -> bytes:
    head = f"From {COMMIT} Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\nSubject: [PATCH] {subject}\n"
    head += "\nBecause.\n---\n"
    return f"{head}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+{new}\n-- \n2.39.5\n\n".encode()


NOTHING = Said()
COVER = mail("cover", "x").split(b"---\n")[0]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "patches" / "up"
    folder.mkdir(parents=True)
    (folder / "series").write_text("# why they are here\n# licence: MIT\n0007-first.patch\n")
    (folder / "0007-first.patch").write_text("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+first\n")
    return tmp_path


def files(root: Path, upstream: str = "up") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "patches" / upstream).iterdir()}


def refused(
    root: Path, boxes: list[tuple[str, bytes]], said: Said = NOTHING, upstream: str = "up"
) -> tuple[Problem, ...]:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(InputErrors) as caught:
        import_mails(root, upstream, boxes, said)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    return caught.value.problems()


def test_mails_become_the_last_patches_of_a_series_with_what_is_to_be_said_marked(root: Path) -> None:
    done = import_mails(
        root, "up", [("one", COVER + mail("Net: the Other Way!", "b")), ("two", mail("é", "c"))], Said()
    )
    assert done.names == ("0008-net-the-other-way.patch", "0009-change.patch")
    assert done.passed_over == ("one: mail 1: cover",)
    found = files(root)
    assert found["series"].decode().split("\n") == [
        "# why they are here",
        "# licence: MIT",
        "0007-first.patch",
        *done.names,
        "",
    ]
    assert found["0008-net-the-other-way.patch"].decode() == (
        "Description: Net: the Other Way!\n Because.\nAuthor: A <a@example.org>\n"
        f"Origin: TODO: is commit {COMMIT} upstream's?\nWhen-To-Drop: TODO\n\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
    )


def test_what_a_person_says_of_all_mails_is_written_and_a_licence_only_where_it_differs(root: Path) -> None:
    said = Said(origin="backport", licence="apache-2.0", when_to_drop="with 2.0")
    (name,) = import_mails(root, "up", [("box", mail("b", "b"))], said).names
    header = files(root)[name].decode()
    assert "Origin: backport\nSPDX-License-Identifier: Apache-2.0\nWhen-To-Drop: with 2.0\n" in header
    (name,) = import_mails(root, "up", [("box", mail("c", "c"))], Said(licence="MIT")).names
    assert "SPDX" not in files(root)[name].decode()


def test_a_series_that_is_not_there_is_begun_when_its_licence_is_said(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, [("box", mail("b", "b"))], upstream="new")
    assert "no series of patches is called 'new'" in problem.message
    assert problem.hint == "to begin that series, say its licence: --licence SPDX"
    (name,) = import_mails(tmp_path, "new", [("box", mail("b", "b"))], Said(licence="MIT")).names
    assert series_of(files(tmp_path, "new"), "new").series.names == (name,)
    assert [path.name for path in (tmp_path / "patches").iterdir()] == ["new"]


def test_every_mail_that_is_none_is_reported_at_once_and_nothing_is_written(root: Path) -> None:
    bad = mail("bad", "b").replace(b"@@ -1 +1 @@", b"@@ -1,9 +1 @@")
    known = mail("known", "first")
    found = refused(root, [("one", bad + known), ("two", b"no mail\n"), ("three", mail("b", "b") + mail("again", "b"))])
    assert [(p.where, p.message) for p in found] == [
        ("one: mail 1, as 0008-bad.patch: line 13", "the hunk of line 9 is not complete"),
        ("one: mail 2", "the series has these changes already, as 0007-first.patch"),
        ("three: mail 2", "the series has these changes already, as 0009-b.patch"),
        ("two: mail 1", "not a mail: it does not begin with fields such as From: and Subject:"),
    ]


def test_mails_without_changes_are_no_patches(root: Path) -> None:
    (problem,) = refused(root, [("box", COVER)])
    assert problem.message == "no mail holds a change"


@pytest.mark.parametrize("upstream", ["../up", "a/b", "..", ".hidden", "Up", "", "nul\0"])
def test_a_series_is_begun_in_a_folder_of_the_project_alone(tmp_path: Path, upstream: str) -> None:
    (tmp_path / "root").mkdir()
    refused(tmp_path / "root", [("box", mail("b", "b"))], Said(licence="MIT"), upstream)
    assert list(tmp_path.rglob("*")) == [tmp_path / "root"]


def test_a_licence_that_is_none_is_refused(root: Path) -> None:
    (problem,) = refused(root, [("box", mail("b", "b"))], Said(licence="mine"))
    assert problem.where == "--licence"


def test_a_blank_line_that_a_mailer_trimmed_is_refused_by_its_line(root: Path) -> None:
    diff = b"--- a/g\n+++ b/g\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n\n-- \n2\n"
    (problem,) = refused(root, [("box", mail("x", "b").split(b"\n--- a")[0] + b"\n" + diff)])
    assert "the space of a blank context line was trimmed" in problem.message
