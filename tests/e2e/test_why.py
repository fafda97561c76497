# SPDX-License-Identifier: Apache-2.0
"""The questions that a build engineer asks after an edit, an update, a loss: of a project that really derives."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from derive.canonical import decode, sha256
from derive.lock.documents import render_lock
from derive.store.local import LocalStore
from derive.trees.materialise import remove_folder
from derive.trees.pack import NewFile, add_members
from support.archives import Tar, deb, folder
from support.cli import Ran, environment
from support.require import skip_or_fail
from support.servers import Reply
from support.small import Small, artifacts, base_lock, deb_entry, locator, small_project

BUILD = "derivations/small/build.sh"
PATCH = "patches/hello/0001-greet.patch"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    """Yield the small project, derived once."""
    with small_project(tmp_path) as project:
        assert project.here("image").code == 0
        yield project


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Yield the small project, derived; no test changes it."""
    with small_project(tmp_path_factory.mktemp("derived")) as project:
        assert project.here("image").code == 0
        yield project


def body(ran: Ran) -> Any:
    """Return the body of the record that a command answered with."""
    document = decode(ran.out.encode())
    assert isinstance(document, dict)
    return document["body"]


def causes(ran: Ran) -> list[Any]:
    """Return what the causes of an answer are."""
    assert ran.code == 0, ran.err
    return [cause["difference"] for cause in body(ran)["causes"]]


# Why X was built


def test_what_was_never_built_is_said_to_be_new(tmp_path: Path) -> None:
    with small_project(tmp_path) as small:
        text = small.here("why", "hello").answer
    assert "would be built" in text
    assert "nothing of this name, for this platform, was realised in this store before it" in text


def test_what_was_built_first_has_nothing_before_it(derived: Small) -> None:
    text = derived.here("why", "hello").answer
    assert "built 20" in text
    assert "for small (linux/amd64); its output is in the store" in text
    assert "nothing of this name" in text


def test_an_edited_line_of_a_script_is_why_all_above_it_would_be_built_and_then_was(small: Small) -> None:
    small.edit(BUILD, "cat /in/source/greeting", "cat /in/source/greeting /in/source/greeting")
    for name, path in (("hello", "in hello"), ("small", "in hello < small layer hello < small")):
        text = small.here("why", name).answer
        assert "would be built" in text
        assert '-{ cat /in/source/greeting; echo "for $DERIVE_HOST"' in text
        assert text.endswith(path)
    assert small.here("image").code == 0
    text = small.here("why", "small").answer
    assert "its output is in the store" in text
    assert '-{ cat /in/source/greeting; echo "for $DERIVE_HOST"' in text


def test_an_edited_hunk_is_shown_and_its_header_is_no_cause(small: Small) -> None:
    small.edit(PATCH, "Description: greet the world", "Description: greet everybody")
    assert "nothing of this name" in small.here("why", "hello-patched").answer
    small.edit(PATCH, "+hello, world", "+hello, you")
    assert small.here("image").code == 0
    (hunk,) = causes(small.here("why", "small", "--json"))
    assert (hunk["kind"], hunk["patch"], hunk["path"]) == ("hunk", PATCH, "greeting")
    assert "  -+hello, world\n  ++hello, you\n" in small.here("why", "small").answer


def test_long_after_the_fact_the_same_is_said_by_id(small: Small) -> None:
    before = body(small.here("why", "small", "--json"))["derivation"]
    small.edit(PATCH, "+hello, world", "+hello, you")
    assert small.here("image").code == 0
    middle = body(small.here("why", "small", "--json"))["derivation"]
    small.edit("images/small.toml", "[config]", '[config]\nuser = "1"')
    assert small.here("image").code == 0
    shutil.rmtree(small.root / "derivations")  # the project is none any more
    found = body(small.here("why", f"drv:{middle[7:19]}", "--json"))
    assert found["since"]["derivation"] == before
    assert [cause["difference"]["kind"] for cause in found["causes"]] == ["hunk"]


WORD = ("cat /in/source/greeting", "cat /in/source/greeting /in/source/greeting")
AGAIN = ("cat /in/source/greeting", "cat /in/source/greeting; cat /in/source/greeting")


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (("build", "hello"), ("hello",)),
        (("image",), ("small", "hello")),
        (("build", "small"), ("small",)),
    ],
)
def test_what_was_answered_from_the_store_was_derived_last_too(
    small: Small, command: tuple[str, ...], names: tuple[str, ...]
) -> None:
    """A, B, back to A, and then C."""
    first = small.here(*command).answer
    small.edit(BUILD, *WORD)
    assert small.here(*command).answer != first
    for name in names:
        assert small.here("diff", name, ".").code == 0
    small.edit(BUILD, *WORD[::-1])
    assert small.here(*command).answer == first
    for name in names:
        ran = small.here("diff", name, ".")
        assert (ran.code, "the same" in ran.out) == (0, True)
        assert small.here("why", name, ".").answer == "they are one derivation"
    small.edit(BUILD, *AGAIN)
    for name in names:
        found = causes(small.here("why", name, ".", "--json"))
        assert [WORD[0] + ";" in one["after"] and WORD[1] not in one["before"] for one in found] == [True]
        (cause,) = causes(small.here("why", name, "--json"))
        assert WORD[1] not in cause["before"]
    small.here(*command)
    for name in names:
        assert WORD[1] not in causes(small.here("why", name, "--json"))[0]["before"]
    assert "reused" not in small.here("plan", names[0], "--past").out


def test_a_run_that_failed_is_what_was_derived_last_as_far_as_it_came(small: Small) -> None:
    small.edit(PATCH, "+hello, world", "+hello, you")
    small.edit(BUILD, 'echo "hello is built"', "false")
    assert small.here("image").code != 0
    assert small.here("why", "hello-patched", ".").answer == "they are one derivation"
    assert "+false" in small.here("why", "hello", ".").answer.replace(" ", "")


def test_an_input_stands_for_what_the_image_that_was_derived_last_has(small: Small) -> None:
    small.edit(BUILD, *WORD)
    assert small.here("build", "hello").code == 0
    small.edit(BUILD, *WORD[::-1])
    assert small.here("image").code == 0
    assert small.here("why", "hello", ".").answer == "they are one derivation"


def test_nothing_is_noted_where_the_store_stands_for_it_already(small: Small) -> None:
    with LocalStore(small.store) as store:
        rows = store.database.cursor
        counts = []
        for _ in range(3):
            assert small.here("image").code == 0
            assert small.here("build", "small").code == 0
            with rows() as cursor:
                counts += cursor.execute("SELECT count(*) FROM runs").fetchone()
    assert counts == [1, 1, 1]


def test_a_package_that_moved_in_the_lock_is_named_with_its_versions(small: Small) -> None:
    move_notes(small, "2.0-1")
    text = small.here("why", "small").answer
    assert "notes 1.0-1 -> 2.0-1 (amd64)" in text
    assert "in notes_2.0-1_amd64.deb unpacked < notes < small layer notes < small" in text
    assert small.here("image").code == 0
    (entry,) = causes(small.here("why", "notes", "--json"))
    assert entry["kind"] == "lock-entry"
    assert (entry["before"]["version"], entry["after"]["version"]) == ("1.0-1", "2.0-1")
    fetched = small.here("show", "notes", "--json")
    assert fetched.code == 0
    (fetch,) = causes(small.here("why", "notes_2.0-1_amd64.deb", "--json"))
    assert "version" in fetch["fields"]


def test_an_edit_that_changes_no_output_moves_a_label_alone(small: Small) -> None:
    small.edit(BUILD, 'echo "hello is built"', 'echo "hello was built"')
    assert small.here("image").code == 0
    text = small.here("why", "small").answer
    assert "label only" in text
    assert "these moved ids alone" in text
    layer = small.here("why", "small layer hello").answer
    assert "not built, since its inputs came out as those of an earlier one (early cutoff)" in layer
    assert "both gave the same output" in small.here("why", "hello").answer


def test_an_output_that_is_gone_is_why_it_would_be_and_was_made_again(small: Small) -> None:
    manifest = small.here("image").answer
    blob = small.store / "blobs" / "sha256" / manifest[7:]
    blob.unlink()
    assert "its output is gone from the store: it would be made again" in small.here("why", "small").answer
    assert small.here("image").answer == manifest
    text = small.here("why", "small").answer
    assert "again, since its output was gone from the store; first built" in text
    assert body(small.here("why", "small", "--json"))["lost"] is True


def test_another_platform_is_no_predecessor(small: Small) -> None:
    assert small.here("image", "--platform", "linux/arm64").code == 0
    for name in ("small", "hello", "small layer hello", "small root"):
        text = small.here("why", name, "--platform", "linux/arm64").answer
        assert "nothing of this name, for this platform" in text, name


def test_a_name_that_the_project_has_no_more_is_looked_for_in_the_store(small: Small) -> None:
    small.edit("images/small.toml", 'from = ["hello"]', 'from = ["hello-patched"]')
    table = (small.root / "derivations/small.toml").read_text()
    small.write("derivations/small.toml", table[: table.index("[hello]\n")])
    (small.root / BUILD).unlink()
    assert "for small (linux/amd64)" in small.here("why", "hello").answer
    outside = small.home / "nowhere"
    outside.mkdir()
    assert small.derive("why", "hello", "--store", str(small.store), "--project", str(small.root)).code == 0


def test_a_project_that_is_wrong_is_told_to_be_and_not_passed_over(small: Small) -> None:
    small.write(BUILD, "x")
    small.write("derivations/small.toml", "[hello]\nbuilder = 'skript'\n")
    ran = small.here("why", "hello")
    assert ran.code == 2
    assert "no such builder" in ran.err


# Why X is needed


@pytest.mark.parametrize(
    ("wanted", "end"),
    [
        ("busybox", "busybox_1.0-1_amd64.deb unpacked  unpack"),
        ("busybox_1.0-1_amd64.deb", "busybox_1.0-1_amd64.deb  fetch-deb"),
        ("busybox:amd64", "busybox_1.0-1_amd64.deb unpacked  unpack"),
        ("hello-source", "hello-source  unpack"),
        ("0001-greet.patch", "hello-patched  patch"),
        ("/usr/share/hello/run", "hello_1.0.orig.tar.gz  fetch-source"),
        ("/usr/share/hello/greeting", "hello (linux/amd64)  script"),
        ("/usr/share/notes/readme", "notes_1.0-1_amd64.deb  fetch-deb"),
        ("/usr/share/notes/note", "notes (linux/amd64)  debian-root"),
    ],
)
def test_the_path_ends_at_what_was_asked_for(derived: Small, wanted: str, end: str) -> None:
    lines = derived.here("why", wanted, "--in", "small").answer.splitlines()
    assert lines[0].startswith("small (linux/amd64)")
    assert end in lines[-1]
    assert [len(line) - len(line.lstrip()) for line in lines] == list(range(0, 2 * len(lines), 2))


@pytest.mark.parametrize("wanted", ["zsh", "/usr/share/nothing", "/usr/share", "busybox:arm64", "0" * 12])
def test_what_is_not_needed_is_no_and_says_so(derived: Small, wanted: str) -> None:
    ran = derived.here("why", wanted, "--in", "small")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err


def test_what_a_store_with_gaps_cannot_know_it_does_not_deny(small: Small) -> None:
    key = body(small.here("why", "small", "--json"))["derivation"]
    database = sqlite3.connect(small.store / "derive.sqlite")
    database.execute("DELETE FROM derivations WHERE name LIKE 'small layer%' OR name = 'small root'")
    database.commit()
    database.close()
    ran = small.here("why", "hello", "--in", f"drv:{key[7:]}")
    assert (ran.code, ran.out) == (3, "")
    assert "not known to this store" in ran.err
    assert "small layer hello" in small.here("why", "hello", "--in", "small").answer  # evaluated, and whole


def test_all_direct_users_are_listed(derived: Small) -> None:
    text = derived.here("why", "hello", "--in", "image:small", "--all").answer
    assert "small layer hello" in text
    assert "small root" in text
    assert text.endswith("direct users")


# Why A became B


def test_the_working_tree_is_compared_with_what_was_derived_last(small: Small) -> None:
    assert small.here("why", "small", ".").answer == "they are one derivation"
    small.edit(PATCH, "+hello, world", "+hello, you")
    hunks = [
        causes(small.here("why", name, ".", "--json"))
        for name in ("small", "hello", "hello-patched", "small layer hello")
    ]
    assert [one["kind"] for (one,) in hunks] == ["hunk"] * 4
    (back,) = causes(small.here("why", ".", "small", "--json"))
    assert back["before"] == hunks[0][0]["after"]


def test_two_images_are_compared_by_their_digests(small: Small) -> None:
    first = small.here("image").answer
    small.edit("images/small.toml", "[config]", '[config]\nuser = "1"')
    second = small.here("image").answer
    assert first != second
    text = small.here("why", first[:19], second).answer
    assert text == 'config.user: "" -> "1"\n  in small'
    (value,) = causes(small.here("why", first, second, "--json"))
    assert value == {"kind": "value", "place": "config.user", "before": "", "after": "1"}


# Diff


def test_what_moved_between_two_images_is_told_part_by_part(small: Small) -> None:
    first = small.here("image").answer
    assert small.here("diff", first, first).code == 0
    small.edit(PATCH, "+hello, world", "+hello, you")
    small.edit("images/small.toml", "[config]", '[config]\nuser = "1"')
    move_notes(small, "2.0-1")
    second = small.here("image").answer
    ran = small.here("diff", first, second, "--contents")
    assert ran.code == 1
    for part in (
        '\nfields\n  config.user: "" -> "1"\n',
        "\npackages\n  notes 1.0-1 -> 2.0-1 (amd64)\n",
        "\nlayers\n  0  notes: sha256:",
        '\nconfig\n  config.User = "1" added\n',
        "  ~ /usr/share/hello/greeting  contents: ",
        "  -hello, world\n  +hello, you\n",
    ):
        assert part in ran.out
    found = body(small.here("diff", first, second, "--json"))
    assert found["same"] is False
    whats = {row["path"]: row["what"] for row in found["paths"]}
    assert whats["usr/share/hello/greeting"] == "contents"
    assert whats["usr/share/notes/ping"] == "removed"
    assert [row["before"] == row["after"] for row in found["layers"]] == [False, False]
    assert found["pull"]["shared_layers"] == 0


def test_trees_are_compared_by_path(derived: Small) -> None:
    trees = [derived.here("build", name).answer for name in ("hello-source", "hello-patched")]
    ran = derived.here("diff", *(f"tree:{one}" for one in trees))
    assert ran.code == 1
    assert "  ~ /greeting  contents: " in ran.out
    assert "paths: 1 changed\nsize: 64 B -> 71 B, +7 B" in ran.out
    assert derived.here("diff", trees[0], trees[0]).out.endswith("the same\n")


def test_odd_names_and_contents_are_shown_and_move_no_cursor(derived: Small) -> None:
    def tree(store: LocalStore, **files: bytes) -> str:
        rows = [
            (name.encode("latin-1"), NewFile(executable=name == "run", chunks=[data])) for name, data in files.items()
        ]
        return store.add_listing(add_members(store, rows)).hex

    with LocalStore(derived.store) as store:
        one = tree(
            store,
            **{"caf\xe9": b"a\n", "esc\x1b[2J": b"x\x1b[31m\n", "bin": b"\0a", "run": b"1", "big": b"a" * (1 << 20)},
        )
        two = tree(
            store,
            **{"caf\xe9": b"b", "esc\x1b[2J": b"y\x1b[32m\n", "bin": b"\0b", "new": b"\xff", "big": b"b" * (2 << 20)},
        )
    ran = derived.here("diff", f"tree:{one}", f"tree:{two}", "--contents")
    assert ran.code == 1
    assert "\x1b" not in ran.out
    for part in (
        "  ~ /caf\\xe9  contents: ",
        "  -a\n  +b  (no newline at the end)\n",
        "  -x\\x1b[31m\n  +y\\x1b[32m\n",
        "/bin\n  not shown: no text\n",
        "/big\n  not shown: larger than 1 MiB\n",
        "  - /run  program of 1 B\n",
        "  +\\xff  (no newline at the end)\n",
        "paths: 1 added, 1 removed, 4 changed\n",
    ):
        assert part in ran.out, part
    found = body(derived.here("diff", f"tree:{one}", f"tree:{two}", "--json"))
    assert "caf%E9" in {row["path"] for row in found["paths"]}


def test_two_files_are_compared_by_their_first_byte_that_differs(derived: Small) -> None:
    files = [sha256(artifacts()[f"{name}_1.0-1_amd64.deb"]).hex for name in ("busybox", "notes")]
    ran = derived.here("diff", *files)
    assert ran.code == 1
    assert "which differ first at byte " in ran.out


def test_a_side_that_is_not_built_is_said_to_be(small: Small) -> None:
    small.edit(PATCH, "+hello, world", "+hello, you")
    ran = small.here("diff", "hello", ".")
    assert ran.code == 1
    assert "is not built" in ran.out


# Operands, streams, surroundings


def test_show_takes_the_same_operands_and_says_where_an_artifact_came_from(derived: Small) -> None:
    assert derived.here("show", ".").out == derived.here("show", "image:small").out
    assert (
        derived.here("show", "hello@linux/arm64").out == derived.here("show", "hello", "--platform", "linux/arm64").out
    )
    blob = sha256(artifacts()["notes_1.0-1_amd64.deb"])
    place = f"{derived.server.url}/debian/{locator('notes_1.0-1_amd64.deb')}"
    assert f"from  {place}" in derived.here("show", str(blob)).answer
    (source,) = body(derived.here("show", str(blob), "--json"))["sources"]
    assert source["place"] == place


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("why", "zork"), 2),
        (("why", "zork", "."), 3),
        (("why", ".", "."), 2),
        (("why", "small", "hello", "--in", "small"), 2),
        (("why", "small", "--all"), 2),
        (("why", ".", "--in", "small"), 2),
        (("why", "shape:x"), 2),
        (("why", "\udce9"), 2),
        (("why", "\udce9", "--in", "small"), 1),
        (("why", "/\udce9", "--in", "small"), 1),
        (("why", "f" * 64), 2),
        (("why", "hello@linux/riscv64"), 2),
        (("diff", "small", "f" * 12), 2),
        (("diff", "tree:zz", "."), 2),
    ],
)
def test_wrong_usage_is_an_error_with_a_next_step_and_no_answer(
    derived: Small, arguments: tuple[str, ...], code: int
) -> None:
    ran = derived.here(*arguments)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err
    assert "fault of derive" not in ran.err


def test_a_project_that_did_not_change_is_evaluated_once(derived: Small) -> None:
    assert derived.here("why", "hello").code == 0
    code = "import sys; from derive.cli.main import main; main(sys.argv[1:]); print('pydantic' in sys.modules)"
    assert run_python(derived, code, "why", "hello").endswith("False\n")


@pytest.mark.parametrize("locale", ["C", "tr_TR.UTF-8"])
def test_the_locale_changes_no_answer(derived: Small, locale: str) -> None:
    plain = derived.derive("why", "busybox", "--in", "small")
    assert derived.derive("why", "busybox", "--in", "small", env={"LC_ALL": locale, "LANG": locale}).out == plain.out


def test_a_pipe_gets_no_colour(derived: Small) -> None:
    assert "\x1b" not in derived.derive("why", "hello", env={"TERM": "xterm"}).out


def test_a_store_that_cannot_be_written_answers_all_the_same() -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        skip_or_fail("a store of another user needs root and setpriv")
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    # Not below pytest's own folder, which is closed to others.
    with TemporaryDirectory(prefix="derive-test-") as place, small_project(Path(place)) as project:
        Path(place).chmod(0o755)
        assert project.here("image").code == 0
        for arguments in (("why", "hello"), ("why", "busybox", "--in", "small"), ("diff", "hello", ".")):
            ran = project.derive(*arguments, before=nobody)
            assert ran.code == 0, ran.err
        remove_folder(project.store)


def move_notes(small: Small, version: str) -> None:
    """Let the lock name another version of the package ``notes``, and the mirror serve it."""
    lock = base_lock()
    members = [
        *(folder(name) for name in (b"./", b"./usr/", b"./usr/share/", b"./usr/share/notes/")),
        Tar(name=b"./usr/share/notes/readme", data=f"notes, {version}\n".encode()),
    ]
    script = Tar(name=b"./postinst", data=b"#!/bin/sh\n", mode=0o755)
    data = deb(*members, package="notes", version=version, control=[script])
    file = f"notes_{version}_amd64.deb"
    old = deb_entry("notes_1.0-1_amd64.deb")
    new = replace(old, version=version, file=file, locator=locator(file), size=len(data), sha256=sha256(data))
    closures = {**lock.closures, "run": {**lock.closures["run"], "amd64": (file,)}}
    debs = tuple(sorted((new if one == old else one for one in lock.debs), key=lambda one: one.file))
    small.write("lock/base.lock.json", render_lock(replace(lock, debs=debs, closures=closures)))
    small.serve(file, Reply(body=data))


def run_python(small: Small, code: str, *arguments: str) -> str:
    """Run some Python in the project, and return what it wrote."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        env=environment(small.environment),
        cwd=small.root,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
