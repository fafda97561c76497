# SPDX-License-Identifier: Apache-2.0
"""From an upstream that moved to a new digest, as a person does it at the command line."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.canonical import Digest
from derive.lock.documents import SourceFile, render_lock
from support.archives import Tar, folder, tar
from support.folders import Plain
from support.git_server import GitHttp, Upstream
from support.servers import Reply
from support.small import Small, base_lock, locator, small_project

MOVED = b"first\nsecond\nhello there\nlast\n"
NEXT = "hello_1.1.orig.tar.gz"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as made:
        yield made


def bump(small: Small) -> None:
    """Upstream releases 1.1, and the lock moves to it."""
    members = [
        folder(b"hello-1.1/"),
        Tar(name=b"hello-1.1/greeting", data=MOVED),
        Tar(name=b"hello-1.1/run", data=b"#!/bin/sh\ncat /usr/share/hello/greeting\n", mode=0o755),
    ]
    data = gzip.compress(tar(*members), mtime=0)
    small.serve(NEXT, Reply(body=data))
    file = SourceFile(file=NEXT, locator=locator(NEXT), size=len(data), sha256=Digest(hashlib.sha256(data).hexdigest()))
    lock = base_lock()
    source = replace(lock.sources[0], version="1.1-1", files=(file,))
    small.write("lock/base.lock.json", render_lock(replace(lock, sources=(source,))))


def git(tree: Path, *arguments: str) -> None:
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b"}
    settings |= {"GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b"}
    subprocess.run(["git", *arguments], cwd=tree, env={**os.environ, **settings}, check=True, capture_output=True)


def test_a_series_is_carried_from_the_source_that_was_locked_to_the_one_that_is(small: Small) -> None:
    """The store remembers what the series fitted; nobody names it."""
    before = small.here("build", "hello-patched").answer
    bump(small)
    assert small.here("build", "hello-patched").code == 2
    stopped = small.here("patches", "rebase", "hello")
    assert stopped.code == 1
    assert "greeting: conflict 1" in stopped.out
    assert "ours        3  'hello there\\n'" in stopped.out
    assert "--continue" in stopped.err
    tree = small.root / ".cache" / "patches" / "hello.rebase"
    (tree / "greeting").write_bytes(MOVED.replace(b"hello there", b"hello there, world"))
    assert small.here("patches", "rebase", "hello", "--continue").answer == "resolved  0001-greet.patch"
    after = small.here("build", "hello-patched").answer
    assert before != after
    assert small.here("patches", "status", "hello").code == 0


def test_a_rebase_that_is_given_up_leaves_the_project_as_it_was(small: Small) -> None:
    small.here("build", "hello-patched")
    bump(small)
    files = {path: path.read_bytes() for path in (small.root / "patches").rglob("*") if path.is_file()}
    assert small.here("patches", "rebase", "hello").code == 1
    given_up = small.here("patches", "rebase", "hello", "--abort")
    assert (given_up.code, given_up.out) == (0, "")
    assert "hello.rebase-given-up" in given_up.err
    assert {path: path.read_bytes() for path in (small.root / "patches").rglob("*") if path.is_file()} == files


def test_edited_refreshed_exported(small: Small) -> None:
    tree = Path(small.here("patches", "edit", "hello").answer)
    (tree / "greeting").write_text("first\nsecond\nhello, people\nlast\n")
    git(tree, "commit", "--all", "--amend", "--no-edit")
    (tree / "more").write_text("more\n")
    git(tree, "add", "more")
    git(tree, "commit", "--message", "Say more")
    assert small.here("patches", "refresh", "hello").answer == "changed  0001-greet.patch\nnew      0002-say-more.patch"
    assert small.here("patches", "refresh", "hello").answer == "nothing changed"
    assert small.here("patches", "list", "--check").code == 1  # the new header is not written yet
    box = small.root / "box"
    record = json.loads(small.here("patches", "export", "hello", "say-more", "-o", str(box), "--json").answer)
    assert record["body"]["patches"] == ["0002-say-more.patch"]
    assert len(small.here("patches", "export", "hello", "-o", str(box)).answer) == 40
    assert box.read_bytes().count(b"\nSubject: ") == 2
    printed = small.here("patches", "export", "hello", "-o", "-")
    assert printed.out.encode() == box.read_bytes()
    assert "2 patches on standard output" in printed.err
    assert small.here("patches", "export", "hello", "-o", "-", "--json").code == 2
    ran = small.here("patches", "export", "hello", "-o", "/nonexist/x")
    assert (ran.code, ran.out) == (2, "")
    assert "/nonexist/x: the folder /nonexist does not exist" in ran.err
    assert small.here("build", "hello-patched").code == 0


def test_a_patch_that_became_a_link_is_refused_by_every_command(small: Small, tmp_path: Path) -> None:
    small.here("patches", "edit", "hello")
    patch = small.root / "patches" / "hello" / "0001-greet.patch"
    patch.rename(tmp_path / "elsewhere")
    patch.symlink_to(tmp_path / "elsewhere")
    for command in (("refresh", "hello"), ("status",), ("export", "hello", "-o", "-")):
        ran = small.here("patches", *command)
        assert (ran.code, ran.out) == (2, "")
        assert "patches/hello/0001-greet.patch: a link" in ran.err


def test_a_folder_that_was_worked_in_becomes_a_patch(small: Small) -> None:
    source = Path(small.here("build", "hello-patched", "--path").answer)
    work = small.root.parent / "work"
    subprocess.run(["cp", "-r", str(source), str(work)], check=True)
    subprocess.run(["chmod", "-R", "u+w", str(work)], check=True)
    assert small.here("patches", "new", "--from", str(work), "hello", "nothing").code == 1
    (work / "run").write_text("#!/bin/sh\necho changed\n")
    arguments = ("--from", str(work), "hello", "change-run", "--description", "Change run")
    assert small.here("patches", "new", *arguments).answer == "patches/hello/0002-change-run.patch"
    assert small.here("build", "hello-patched").code == 0


def test_an_import_and_an_export_are_inverses(small: Small, tmp_path: Path) -> None:
    small.here("patches", "edit", "hello")
    small.here("patches", "export", "hello", "-o", str(tmp_path / "box"))
    patch = small.root / "patches" / "hello" / "0001-greet.patch"
    before = small.here("build", "hello-patched").answer
    patch.unlink()
    small.write("patches/hello/series", "# licence: Apache-2.0\n")
    assert small.here("patches", "import", "hello", str(tmp_path / "box")).code == 0
    assert small.here("build", "hello-patched").answer == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("edit", "nothing"),
        ("edit", "hello", "nothing"),
        ("edit", "hello", "--source", "nothing"),
        ("edit", "hello", "--source", "tree:sha256:zz"),
        ("refresh", "hello"),
        ("export", "hello", "-o", "box"),
        ("new", "hello", "x", "--from", "nowhere"),
        ("rebase", "hello", "--continue"),
        ("rebase", "hello", "--skip"),
        ("rebase", "hello", "--abort"),
        ("rebase", "hello", "--abort", "--skip"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(small: Small, arguments: tuple[str, ...]) -> None:
    done = small.here("patches", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err


GIT_WISH = """\
kind = "upstreams"

[git.words]
url = "{url}"
tag = "v1"
licence = "Apache-2.0"
"""
GIT_SOURCE = '[words]\nbuilder = "source"\nfrom = { set = "words", git = "words" }\n'
GIT_PATCHED = '\n[words-patched]\nbuilder = "patch"\nfrom = "words"\nseries = "words"\n'


def test_a_series_on_a_git_upstream_is_carried_over_to_a_tag_before_the_lock_moves(small: Small) -> None:
    words = "".join(f"word {number}\n" for number in range(20))
    with GitHttp(small.root.parent) as server:
        upstream = Upstream(small.root.parent / "words.git")
        upstream.commit({b"words": Plain(words.encode())})
        upstream.tag("v1", "main")
        upstream.commit({b"words": Plain(("new\n" + words).encode())})
        upstream.tag("v2", "main")
        small.write("lock/words.toml", GIT_WISH.format(url=server.url("words.git")))
        assert small.here("lock", "words").code == 0
        small.write("derivations/words.toml", GIT_SOURCE + GIT_PATCHED)
        small.write("patches/words/series", "# licence: MIT\n0001-x.patch\n")
        rows = words.splitlines(keepends=True)
        hunk = "".join(
            [" " + row for row in rows[7:10]] + ["-" + rows[10], "+x\n"] + [" " + row for row in rows[11:14]]
        )
        small.write("patches/words/0001-x.patch", f"--- a/words\n+++ b/words\n@@ -8,7 +8,7 @@\n{hunk}")
        assert small.here("build", "words-patched").code == 0
        assert small.here("patches", "rebase", "words", "--onto", "git:v3").code == 3
        assert small.here("patches", "rebase", "hello", "--onto", "git:v2").code == 2
        assert small.here("patches", "rebase", "words", "--onto", "git:v2").answer == "moved  0001-x.patch"
        assert "@@ -9,7 +9,7 @@" in (small.root / "patches/words/0001-x.patch").read_text()
        assert small.here("patches", "rebase", "words", "--onto", "git:main").answer == "applied  0001-x.patch"


def test_a_name_that_lies_in_this_folder_too_lists_both_meanings(small: Small) -> None:
    (small.root / "hello-source").mkdir()
    done = small.derive("patches", "edit", "hello", "--source", "hello-source")
    assert (done.code, "drv:hello-source" in done.err, "./hello-source" in done.err) == (2, True, True)
    assert small.derive("patches", "edit", "hello", "--source", "drv:hello-source").code == 0


def test_a_series_that_nothing_applies_says_how_it_would_be(small: Small) -> None:
    small.write("patches/other/series", "# licence: MIT\n")
    done = small.here("patches", "edit", "other")
    assert (done.code, "no derivation applies the series other" in done.err) == (2, True)
