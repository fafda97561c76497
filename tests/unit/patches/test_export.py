# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from derive.errors import CheckFailed, InputErrors
from derive.patches.export import Exported, export
from derive.patches.model import FileState
from support.patch_project import PatchProject, patch_project, plain, quick_folder, read_tree, write_tree

SOURCE = plain(f="a\nb\none\ntwo\nthree\nc\nd\n", g="g\n", crlf="one\r\n")
HEADER = """\
Description: Count in digits
 Words are long.
Author: Ä. Person <a@example.org>
Origin: vendor
When-To-Drop: never
Signed-off-by: Ä. Person <a@example.org>

"""
SERIES = {
    "0001-two.patch": HEADER.encode() + b"--- a/f\n+++ b/f\n@@ -1,7 +1,7 @@\n a\n b\n one\n-two\n+2\n three\n c\n d\n",
    "0002-g.patch": b"Subject: Say G\n\ndiff --git a/g b/h\nrename from g\nrename to h\n",
    "0003-crlf.patch": b"--- a/crlf\n+++ b/crlf\n@@ -1 +1 @@\n-one\r\n+1\r\n",
}


@pytest.fixture
def project() -> Iterator[PatchProject]:
    with quick_folder() as place, patch_project(place, SOURCE, SERIES) as made:
        made.edit()
        yield made


def exported(project: PatchProject, *patches: str, onto: str | None = None, branch: str | None = None) -> Exported:
    return export(project.series, project.tree, patches=patches, onto=onto, branch=branch)


def upstream(project: PatchProject, files: Mapping[bytes, FileState]) -> Path:
    """A repository of the upstream's own, with settings that convert nothing."""
    folder = project.root.parent / "upstream"
    write_tree(folder, files)
    project.git("init", "--quiet", tree=folder)
    for key, value in (("core.autocrlf", "false"), ("core.attributesFile", "/dev/null")):
        project.git("config", key, value, tree=folder)
    project.git("add", "--all", tree=folder)
    project.git("commit", "--quiet", "--message", "Upstream", tree=folder)
    return folder


def applied(project: PatchProject, folder: Path, mailbox: bytes, *options: str) -> None:
    project.git("am", "--quiet", *options, tree=folder, given=mailbox)


def test_git_am_makes_of_the_mailbox_what_the_series_makes(project: PatchProject) -> None:
    made = exported(project)
    assert made.patches == tuple(SERIES)
    assert made.has_cr
    folder = upstream(project, SOURCE)
    applied(project, folder, made.mailbox, "--keep-cr")
    assert read_tree(folder) == project.patched()
    log = project.git("log", "--format=%an <%ae>%n%B", "HEAD~2", "-1", tree=folder)
    assert log.strip() == (
        "Ä. Person <a@example.org>\nCount in digits\n\nWords are long.\n\nSigned-off-by: Ä. Person <a@example.org>"
    )


def test_no_field_of_ours_and_no_date_of_ours_is_sent(project: PatchProject) -> None:
    mailbox = exported(project).mailbox
    for word in (b"Origin", b"When-To-Drop", b"Derive-Patch", b"1980", b"Date:"):
        assert word not in mailbox
    assert exported(project).mailbox == mailbox


def test_the_branch_lies_on_the_source_and_the_tree_stays_as_it_was(project: PatchProject) -> None:
    head = project.git("rev-parse", "HEAD")
    made = exported(project, branch="to-send")
    assert project.git("rev-parse", "to-send").strip() == made.commit
    assert project.git("rev-parse", "to-send~3") == project.git("rev-parse", "refs/derive/base")
    assert project.git("rev-parse", "HEAD") == head
    assert project.git("status", "--porcelain") == ""
    assert project.refresh().is_same


def test_some_patches_on_a_commit_that_was_fetched(project: PatchProject) -> None:
    folder = upstream(project, {**SOURCE, **plain(f="zero\na\nb\none\ntwo\nthree\nc\nd\n", new="new\n")})
    project.git("fetch", "--quiet", str(folder), "HEAD:refs/remotes/upstream/main")
    made = exported(project, "0001", onto="upstream/main")
    assert made.patches == ("0001-two.patch",)
    applied(project, folder, made.mailbox)
    assert read_tree(folder)[b"f"].contents == b"zero\na\nb\none\n2\nthree\nc\nd\n"


def test_what_does_not_apply_there_is_said_and_no_branch_is_made(project: PatchProject) -> None:
    folder = upstream(project, plain(f="other\n"))
    project.git("fetch", "--quiet", str(folder), "HEAD:refs/remotes/upstream/main")
    with pytest.raises(CheckFailed, match=r"0001-two\.patch does not apply on upstream/main"):
        exported(project, onto="upstream/main")
    assert "send/up" not in project.git("branch")


def test_unknown_commits_bad_branches_and_stale_trees_are_refused(project: PatchProject) -> None:
    for arguments in ({"onto": "nowhere"}, {"branch": "a..b"}, {"branch": "series"}, {"onto": "-x"}):
        with pytest.raises(InputErrors):
            exported(project, **arguments)
    project.write_series({}, ["0001-two.patch"])
    (project.root / "patches/up/0002-g.patch").unlink()
    (project.root / "patches/up/0003-crlf.patch").unlink()
    with pytest.raises(InputErrors):
        exported(project)
