# SPDX-License-Identifier: Apache-2.0
"""``derive patches list``, ``status`` and ``import`` on the small project, as a person runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.store.local import LocalStore
from support.cli import command, environment
from support.small import PATCH, Small, small_project

HEAD = "Origin: vendor\nWhen-To-Drop: never\n\n"
RUN = """\
diff --git a/run b/run
--- a/run
+++ b/run
@@ -1,2 +1,3 @@
 #!/bin/sh
+# {}
 cat /usr/share/hello/greeting
"""
SERIES = "# licence: Apache-2.0\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """The small project, built once; each test has a copy of its folder, and the store is shared."""
    with small_project(tmp_path_factory.mktemp("patches")) as small:
        assert small.here("build", "hello").code == 0
        yield small


@pytest.fixture
def small(built: Small, tmp_path: Path) -> Small:
    shutil.copytree(built.root, tmp_path / "project")
    return Small(tmp_path / "project", built.store, built.server, built.home)


def series(small: Small, **patches: str) -> None:
    """Write a series: patches by number and name."""
    names = [f"{key.lstrip('p').replace('_', '-')}.patch" for key in patches]
    for name, text in zip(names, patches.values(), strict=True):
        small.write(f"patches/hello/{name}", text)
    for file in (small.root / "patches" / "hello").iterdir():
        if file.name not in (*names, "series"):
            file.unlink()
    small.write("patches/hello/series", SERIES + "".join(f"{name}\n" for name in names))


def states(small: Small, *arguments: str, code: int) -> dict[str, str]:
    ran = small.here("patches", "status", *arguments, "--json")
    assert ran.code == code, ran.err
    return {one["patch"]: one["state"] for part in json.loads(ran.out)["body"]["series"] for one in part["patches"]}


def test_a_list_on_a_terminal_is_no_wider_than_it(small: Small) -> None:
    whole = small.here("patches", "list").out
    main, side = os.openpty()
    try:
        termios.tcsetwinsize(side, (24, 40))
        run = command("patches", "list", "--project", str(small.root))
        done = subprocess.run(
            run, stdout=side, stderr=subprocess.PIPE, env=environment({**small.environment, "COLUMNS": ""}), check=True
        )
        shown = os.read(main, 10_000).decode().replace("\r", "")
    finally:
        os.close(main)
        os.close(side)
    assert done.stderr
    rows = shown.splitlines()
    assert max(map(len, rows)) == 40
    assert [row[-3:] for row in rows] == ["...", "..."]
    assert all(row[:-3] in whole for row in rows)


def test_a_list_names_every_patch_and_says_what_headers_lack(small: Small) -> None:
    ran = small.here("patches", "list")
    assert ran.code == 0
    row = next(line for line in ran.out.splitlines() if "0001-greet.patch" in line)
    assert row.split() == ["hello", "0001-greet.patch", "1", "1", "1", "1", "Apache-2.0", "greet", "the", "world"]
    assert ran.err == "patches/hello/0001-greet.patch: lacks Origin, When-To-Drop\n"
    assert small.here("patches", "list", "--check").code == 1
    small.write("patches/hello/0001-greet.patch", PATCH.replace("\n\n", "\n" + HEAD, 1))
    ran = small.here("patches", "list", "hello", "--check", "--long")
    assert (ran.code, ran.err) == (0, "")
    assert "  may go   never" in ran.out


def test_a_list_needs_no_lock_and_no_store(small: Small) -> None:
    (small.root / "lock" / "base.lock.json").unlink()
    ran = small.here("patches", "list", "--json", env={"DERIVE_STORE": "/nonexistent/store"})
    assert ran.code == 0
    assert json.loads(ran.out)["body"]["patches"][0]["why"] == "greet the world"


def test_a_series_that_applies_is_a_yes(small: Small) -> None:
    ran = small.here("patches", "status", "--offline")
    assert ran.code == 0
    assert ran.out.startswith("patches/hello on hello-source (tree ")
    assert "0001-greet.patch  applies" in ran.out


def test_each_state_is_told_on_the_locked_source(small: Small) -> None:
    series(
        small,
        p0001_greet=PATCH,
        p0002_again=PATCH,
        p0003_note=RUN.format("a note"),
        p0004_other=RUN.format("a note")
        .replace("+# a note\n", "-# a note\n+# another\n")
        .replace("1,2 +1,3", "1,3 +1,3"),
        p0005_bad=PATCH.replace("hello, world", "welt").replace("-hello\n", "-hallo\n"),
        p0006_waits=PATCH.replace("hello, world", "erde").replace("-hello\n", "-welt\n"),
    )
    assert states(small, code=1) == {
        "0001-greet.patch": "applies",
        "0002-again.patch": "already in the series",
        "0003-note.patch": "shadowed",
        "0004-other.patch": "applies",
        "0005-bad.patch": "conflicts",
        "0006-waits.patch": "waits",
    }
    ran = small.here("patches", "status", "hello")
    assert "0003-note.patch   shadowed               overwritten by 0004-other.patch" in ran.out
    assert "0005-bad.patch: greeting: hunk 1: the file differs from the hunk at line 3\n" in ran.out
    assert "  expected  'hallo\\n'\n  got       'hello, world\\n'\n" in ran.out


def test_another_tree_is_judged_by_its_folder_and_is_not_touched(small: Small, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "greeting").write_text("first\nsecond\nhello, world\nlast\n")
    assert states(small, "hello", "--onto", str(other), code=1) == {"0001-greet.patch": "already upstream"}
    assert [path.name for path in other.iterdir()] == ["greeting"]
    ran = small.here("patches", "status", "--onto", f"{other}/nothing")
    assert ran.code == 2


def test_a_patch_without_which_every_output_is_the_same_is_dead(small: Small) -> None:
    """The script that builds the output reads the file greeting, and not the new one."""
    unused = "diff --git a/unused b/unused\nnew file mode 100644\n--- /dev/null\n+++ b/unused\n@@ -0,0 +1 @@\n+x\n"
    later = PATCH.replace("hello, world", "WORLD").replace("-hello\n", "-hello, world\n")
    series(small, p0001_unused=unused, p0002_greet=PATCH, p0003_later=later)
    before = {path: path.read_bytes() for path in small.root.rglob("*") if path.is_file()}
    ran = small.here("patches", "status", "hello", "--outputs", "hello", "--offline")
    assert ran.code == 1, ran.err
    rows = {line.split()[0]: line for line in ran.out.splitlines() if ".patch" in line}
    assert rows["0001-unused.patch"].endswith("dead: every output is the same")
    reason = "needed: hello-patched without 0002-greet.patch: patches/hello/0003-later.patch: greeting: hunk 1: "
    assert reason in rows["0002-greet.patch"]
    assert rows["0003-later.patch"].endswith("changes hello: out")
    assert {path: path.read_bytes() for path in small.root.rglob("*") if path.is_file()} == before


def test_a_build_without_a_patch_is_not_taken_for_one_of_the_project(small: Small) -> None:
    """Whoever asks later for the log of that name, or why it was built, hears of the project's own builds alone."""
    assert small.here("patches", "status", "hello", "--outputs", "hello").code == 0
    with LocalStore(small.store) as store, store.database.cursor() as cursor:
        names = [str(row[0]) for row in cursor.execute("SELECT DISTINCT name FROM steps")]
    assert "hello without 0001-greet.patch" in names
    assert not any(name.startswith("tools without") for name in names)


def test_one_patch_is_left_out_of_an_image_whose_layers_count(small: Small) -> None:
    ran = small.here("patches", "status", "hello", "0001-greet.patch", "--outputs", "image:small", "--json")
    assert ran.code == 0, ran.err
    (patch,) = json.loads(ran.out)["body"]["series"][0]["patches"]
    assert patch["without"].startswith("changes small layer hello: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing",), "no series is named 'nothing'"),
        (("--outputs", "hello"), "--outputs is for one series"),
        (("hello", "--outputs", "notes"), "notes is not made with patches/hello"),
        (("hello", "x.patch", "--outputs", "hello"), "no patch is named 'x.patch'"),
        (("hello", "0001-greet.patch"), "PATCH and --platform are for --outputs"),
        (("hello", "--onto", "tree:12"), "not a tree"),
        (("hello", "--onto", "nowhere"), "nowhere"),
    ],
)
def test_wrong_usage_is_said(small: Small, arguments: tuple[str, ...], said: str) -> None:
    ran = small.here("patches", "status", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_a_series_that_no_derivation_applies_can_be_judged_on_a_tree_that_is_named(small: Small) -> None:
    small.edit("derivations/small.toml", 'series = "hello"', 'series = "other"')
    for name in ("series", "0001-greet.patch"):
        small.write(f"patches/other/{name}", (small.root / "patches/hello" / name).read_bytes())
    ran = small.here("patches", "status", "hello")
    assert (ran.code, ran.out) == (2, "")
    assert "patches/hello: no derivation applies this series" in ran.err
    assert states(small, "hello", "--onto", "hello-source", code=0) == {"0001-greet.patch": "applies"}


def test_a_mailbox_is_imported_and_judged(small: Small, tmp_path: Path) -> None:
    mail = (
        f"From: A <a@example.org>\nSubject: [PATCH] Say a note\n\nBecause.\n---\n\n{RUN.format('note')}-- \n2.39.5\n\n"
    )
    (tmp_path / "box").write_text(mail)
    ran = small.here("patches", "import", "hello", str(tmp_path / "box"))
    assert (ran.code, ran.out) == (0, "patches/hello/0002-say-a-note.patch\n")
    assert states(small, code=0) == {"0001-greet.patch": "applies", "0002-say-a-note.patch": "applies"}
    ran = small.here("patches", "list", "--check")
    assert ran.code == 1
    assert "0002-say-a-note.patch: lacks Origin, When-To-Drop" in ran.err
    ran = small.here("patches", "import", "hello", str(tmp_path / "absent"))
    assert (ran.code, ran.out) == (2, "")
