# SPDX-License-Identifier: Apache-2.0
"""What is wrong in a project's files is refused before anything is fetched: all at once, each with file and key.

The exact words are in tests/golden/errors/, to be read as a person meets them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from derive.lock.documents import render_lock
from support.cli import Ran
from support.golden import check_golden
from support.servers import Reply
from support.small import DERIVATIONS, Small, add_wheels, artifacts, base_lock, locator, small_project

TOML = "derivations/small.toml"
IMAGE = "images/small.toml"
WISH = "lock/base.toml"
LOCK = "lock/base.lock.json"
OTHER = "derivations/other.toml"
PATCH = "patches/hello/0001-greet.patch"
NOTES = "notes_1.0-1_amd64.deb"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as project:
        yield project


def unknown_keys(small: Small) -> None:
    small.edit(TOML, 'script = "build.sh"', 'script = "build.sh"\ncolour = "red"')
    small.edit(TOML, 'from = { set = "base", source = "hello" }', 'from = { set = "base", source = "hello", what = 1 }')
    small.edit(IMAGE, "[config]", '[config]\nshell = "/bin/sh"')
    small.edit(WISH, "kind =", "speed = 1\nkind =")
    small.edit(LOCK, '"kind":', '"colour": "red", "kind":')
    small.edit("pyproject.toml", "format = 1", "format = 1\nsize = 2")


def missing_keys(small: Small) -> None:
    small.edit(TOML, 'script = "build.sh"\n', "")
    small.edit(TOML, 'builder = "patch"\n', "")
    small.edit(TOML, 'from = { set = "base", source = "hello" }', 'from = { set = "base" }')
    small.edit(IMAGE, 'default-platform = "linux/amd64"\n', "")
    small.edit(WISH, 'suite = "trixie"\n', "")
    small.edit("pyproject.toml", "format = 1\n", "")


def wrong_types(small: Small) -> None:
    small.edit(TOML, "timeout = 60", 'timeout = "60"')
    small.edit(TOML, "strip = 1", "strip = 1.0")
    small.edit(IMAGE, 'mode = "0700"', "mode = 448")
    small.edit(IMAGE, 'from = ["notes"]', 'from = "notes"')
    small.edit("pyproject.toml", '"small"', "3")


def values_out_of_range(small: Small) -> None:
    small.edit(TOML, "timeout = 60", "timeout = 0")
    small.edit(TOML, 'kind = "tar"', 'kind = "deb"')
    small.edit(IMAGE, 'mode = "0700"', 'mode = "4755"')
    small.edit(IMAGE, '["linux/amd64", "linux/arm64"]', '["linux/riscv64"]')
    small.edit("pyproject.toml", "format = 1", "format = 2")
    small.edit("pyproject.toml", '"linux/amd64"', '"linux/s390x"')


def invalid_toml(small: Small) -> None:
    small.edit(TOML, "timeout = 60", "timeout = ")
    small.edit(IMAGE, "[modes]", "[modes")
    small.edit(WISH, "[closures.run]", "[closures.run]\n[closures.run]")
    small.write(OTHER, b'name = "\xff"\n')
    small.write(LOCK, "{")


def missing_pins(small: Small) -> None:
    (small.root / LOCK).unlink()


def a_wish_that_changed(small: Small) -> None:
    small.edit(WISH, 'packages = ["notes"]', 'packages = ["notes", "more"]')


def a_cycle(small: Small) -> None:
    small.edit(TOML, 'from = "hello-source"', 'from = "hello"')
    small.write(OTHER, '[self]\nbuilder = "compose"\nparts = [{ from = "self" }]\n')


def absent_names(small: Small) -> None:
    small.edit(TOML, 'from = "hello-source"', 'from = "hello-sauce"')
    small.edit(TOML, 'root = "tools"', 'root = "toolz"')
    small.edit(TOML, 'series = "hello"', 'series = "helo"')
    small.edit(TOML, 'closure = "run"', 'closure = "ran"')
    small.edit(TOML, 'script = "build.sh"', 'script = "built.sh"\nfiles = ["extra.h"]')
    small.edit(TOML, 'source = "hello" }', 'source = "hallo" }')
    small.write(OTHER, '[other]\nbuilder = "debian-root"\nset = "bass"\nclosure = "run"\n')
    small.edit(IMAGE, 'from = ["notes"]', 'from = ["nots"]')
    small.edit("pyproject.toml", '"small"', '"smal"')


def a_builder_that_is_none(small: Small) -> None:
    small.edit(TOML, 'builder = "script"', 'builder = "skript"')
    small.edit(TOML, "[tools]", 'note = "a line"\n\n[tools]')


def names_twice_and_odd_names(small: Small) -> None:
    small.write(OTHER, '[hello]\nbuilder = "compose"\nparts = [{ from = "notes" }]\n\n["A b/c"]\nbuilder = "compose"\n')
    small.edit(IMAGE, 'name = "hello"', 'name = "notes"')
    small.write("images/Über.toml", (small.root / IMAGE).read_bytes())


def a_lock_edited_by_hand(small: Small) -> None:
    before, name, entry = (small.root / LOCK).read_text().partition(f'"file": "{NOTES}",')
    for old, new in (
        ('"suite": "trixie"', '"suite": "http://mirror.example"'),
        ('"size": ', '"size": -'),
        ('"sha256": "', '"sha256": "x'),
    ):
        entry = entry.replace(old, new, 1)
    small.write(LOCK, before.replace('"busybox_1.0-1_amd64.deb"\n   ]', '"busybox_9_amd64.deb"\n   ]') + name + entry)


def a_script_that_cannot_run(small: Small) -> None:
    small.edit(
        TOML, 'inputs = { source = "hello-patched" }', 'inputs = { source = "hello-patched", ".hidden" = "notes" }'
    )
    small.edit(TOML, "timeout = 60", '[hello.environment]\nDERIVE_HOST = "x"\nPATH = "/mine"\n"a b" = "c"')
    small.write("derivations/small/build.sh", b"echo \xff\n")


def paths_that_are_none(small: Small) -> None:
    small.edit(TOML, '"/usr/share/notes/note" =', '"usr/x" = "y"\n"/usr/share/notes/note" =')
    small.edit(IMAGE, "[modes]", '[modes]\n"usr/../x" = { mode = "0755" }\n"/" = { mode = "0755" }')


def a_union_that_cannot_be(small: Small) -> None:
    small.write(
        OTHER,
        '[all]\nbuilder = "compose"\n'
        'parts = [{ from = "notes" }, { from = "notes" }, { from = "hello", at = "../x" }]\n'
        'wins = { "/a" = "nobody" }\n',
    )
    small.edit(IMAGE, 'from = ["hello"]', 'from = ["hello", "hello"]')


def splits_that_cannot_be(small: Small) -> None:
    add_wheels(small)
    small.edit(IMAGE, 'from = ["notes"]', 'from = ["notes"]\nsplit = { own = ["nots"], native = ["*.so"] }')
    small.edit(IMAGE, 'from = ["hello", "programs"]', 'from = ["hello", "programs"]\nsplit = { shared = 70 }')
    more = '[[layers]]\nname = "{}"\nfrom = ["{}"]\nsplit = {}\n\n[modes]'
    small.edit(IMAGE, "[modes]", more.format("one", "hello", "{ shared = 9 }"))
    small.edit(IMAGE, "[modes]", more.format("two", "programs", '{ own = ["demo"], native = ["*.so"], shared = 40 }'))


def a_series_that_is_wrong(small: Small) -> None:
    small.write("patches/hello/series", "# licence: Apache-2.0\n0001-greet.patch\n0002-none.patch\n")
    small.write("patches/hello/0003-stray.patch", (small.root / PATCH).read_bytes())
    small.edit(PATCH, "+hello, world", "+hello")


def a_series_without_a_licence(small: Small) -> None:
    small.write("patches/hello/series", "0001-greet.patch\n")


def names_that_are_no_text(small: Small) -> None:
    folder = small.root / "derivations"
    (folder / "caf\udce9.toml").write_text("")
    (folder / "link.toml").symlink_to("small.toml")
    (folder / "small" / "a\nb").write_text("")


def three_files(small: Small) -> None:
    small.edit(TOML, 'root = "tools"', 'root = "toolz"\ncolour = 1')
    small.edit(IMAGE, 'from = ["notes"]', 'from = ["nots"]')
    small.edit(IMAGE, "[config]", "[config]\nshell = 1")
    small.edit(PATCH, "-hello", "*hello")
    small.edit("pyproject.toml", '"small"', '"smal"')


CASES: tuple[Callable[[Small], None], ...] = (
    unknown_keys,
    missing_keys,
    wrong_types,
    values_out_of_range,
    invalid_toml,
    missing_pins,
    a_wish_that_changed,
    a_cycle,
    absent_names,
    a_builder_that_is_none,
    names_twice_and_odd_names,
    a_lock_edited_by_hand,
    a_script_that_cannot_run,
    paths_that_are_none,
    a_union_that_cannot_be,
    splits_that_cannot_be,
    a_series_that_is_wrong,
    a_series_without_a_licence,
    names_that_are_no_text,
    three_files,
)


def shown(small: Small, ran: Ran) -> str:
    """Return what a person reads, without what differs from run to run."""
    text = ran.err.replace(str(small.root.parent), "PLACE").replace(small.server.url, "MIRROR")
    lines = [line for line in text.splitlines() if not re.match(r"(built|fetched|reused|failed|stopped|small:) ", line)]
    return re.sub(r"[0-9a-f]{64}\.log", "ID.log", "\n".join(lines) + "\n")


def refused(small: Small, ran: Ran, name: str) -> None:
    """Check a refusal at plan time: exit code 2, nothing asked of any mirror, the words of the golden file."""
    assert ran.code == 2, ran.err
    assert ran.out == ""
    assert small.server.requests == []
    assert not small.store.exists() or not list((small.store / "blobs/sha256").iterdir())
    check_golden(f"errors/{name}.txt", shown(small, ran))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.replace("_", "-"))
def test_it_is_refused_before_anything_is_fetched(small: Small, case: Callable[[Small], None]) -> None:
    case(small)
    refused(small, small.here("image"), case.__name__.replace("_", "-"))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("unknown-image", ("image", "smal")),
        ("unknown-derivation", ("build", "drv:helo")),
        ("unknown-name", ("build", "helo")),
        ("platform-that-the-image-lacks", ("image", "small", "--platform", "linux/arm64")),
        ("platform-that-the-closure-lacks", ("build", "tools", "--platform", "linux/arm64")),
    ],
)
def test_a_name_or_platform_that_is_not_there_is_refused_with_what_is(
    small: Small, name: str, arguments: tuple[str, ...]
) -> None:
    small.edit(IMAGE, '["linux/amd64", "linux/arm64"]', '["linux/amd64"]')
    refused(small, small.here(*arguments), name)


def test_a_wheel_for_another_platform_is_refused(small: Small) -> None:
    add_wheels(small, "demo-1.0-cp313-cp313-manylinux_2_28_aarch64.whl")
    refused(small, small.here("image"), "wheel-for-another-platform")


def test_a_platform_that_a_wheel_set_does_not_declare_is_refused(small: Small) -> None:
    add_wheels(small, "demo-1.0-py3-none-any.whl")
    refused(small, small.here("image", "--platform", "linux/arm64"), "wheels-not-for-the-platform")


def test_a_wish_for_an_architecture_that_the_closure_does_not_declare_is_refused(small: Small) -> None:
    small.edit(WISH, 'packages = ["notes"]', 'packages = ["notes", "notes:s390x"]')
    small.edit(WISH, 'architectures = ["amd64"]', 'architectures = ["amd64", "riscv64"]')
    refused(small, small.here("image"), "architecture-that-is-not-declared")


# What only the sources or the outputs show: refused when they are there, and nothing that depends on it runs.


def fails(small: Small, name: str, before: str) -> None:
    ran = small.here("image", "--jobs", "1")
    assert ran.code == 2, ran.err
    assert ran.out == ""
    assert not re.search(rf"^built \d+/\d+  {before}  ", ran.err, re.MULTILINE), f"{before} was built"
    assert re.search(r"^  log:  .*\.log$", ran.err, re.MULTILINE)
    check_golden(f"errors/{name}.txt", shown(small, ran))


def test_a_patch_whose_context_differs_is_refused_before_anything_uses_it(small: Small) -> None:
    small.edit(PATCH, " second", " secund")
    fails(small, "patch-with-fuzz", before="hello")


def test_a_patch_of_a_file_that_is_not_there_is_refused(small: Small) -> None:
    small.write(PATCH, (small.root / PATCH).read_text().replace("greeting", "greetings"))
    fails(small, "patch-of-no-file", before="hello")


def test_a_path_that_two_layers_give_is_refused_before_the_image_is_written(small: Small) -> None:
    small.edit("derivations/small/build.sh", "echo ", 'mkdir -p "$DERIVE_OUT/usr/share/notes"\necho ')
    small.edit(
        "derivations/small/build.sh", 'echo "hello', 'echo mine > "$DERIVE_OUT/usr/share/notes/readme"\necho "hello'
    )
    fails(small, "path-in-two-layers", before="small")


def test_a_path_that_two_parts_of_a_layer_give_is_refused(small: Small) -> None:
    small.write(OTHER, DERIVATIONS[DERIVATIONS.index("[notes]") : DERIVATIONS.index("[hello-source]")].replace(
        "notes]", "more]").replace("[notes.", "[more.").replace("by the declaration", "by another"))  # fmt: skip
    small.edit(IMAGE, 'from = ["notes"]', 'from = ["notes", "more"]')
    fails(small, "path-in-two-parts", before="small layer notes")


def test_a_mode_rule_for_a_path_that_is_not_there_is_refused(small: Small) -> None:
    small.edit(IMAGE, "[modes]", '[modes]\n"/usr/share/nothing" = { mode = "0700" }')
    fails(small, "mode-rule-for-nothing", before="small")


def test_a_maintainer_script_without_an_excuse_and_an_excuse_without_a_script_are_refused(small: Small) -> None:
    small.edit(TOML, '"notes.postinst" =', '"notes.preinst" =')
    fails(small, "stale-excuse", before="small layer notes")


def test_a_declared_link_that_leads_nowhere_is_refused(small: Small) -> None:
    small.edit(TOML, "[notes.files]", '[notes.alternatives]\n"/usr/bin/awk" = "/usr/bin/mawk"\n\n[notes.files]')
    fails(small, "alternative-that-leads-nowhere", before="small layer notes")


# A locator that moved


def moved(small: Small) -> str:
    """Let the lock say that a package lies elsewhere, and return where."""
    place = locator(NOTES).replace("pool/main/n/", "pool/contrib/n/")
    small.edit(LOCK, locator(NOTES), place)
    return f"/debian/{place}"


def test_h3_a_locator_that_moved_is_fetched_again_although_the_hash_did_not_move(small: Small) -> None:
    first = small.here("image").answer
    place = moved(small)
    plan = json.loads(small.here("plan", "--json").out)["body"]
    fetches = [(step["name"], step["reason"]) for step in plan["steps"] if step["action"] == "fetch"]
    assert fetches == [(NOTES, "its name, version or place in the lock moved while its hash did not: fetched again")]
    assert [step["name"] for step in plan["steps"] if step["action"] == "build"] == []
    small.server.serve(place, Reply(body=artifacts()[NOTES]))
    assert small.here("image").answer == first
    assert small.server.paths().count(place) == 1
    assert small.here("image").answer == first
    assert small.server.paths().count(place) == 1, "once is enough"


def test_h3_where_nothing_serves_the_new_place_the_old_artifact_is_not_used_in_silence(small: Small) -> None:
    assert small.here("image").code == 0
    moved(small)
    ran = small.here("image")
    assert (ran.code, ran.out) == (3, "")
    assert f"no mirror serves pool/contrib/n/notes/{NOTES}" in ran.err
    assert (small.here("image", "--offline").code, small.here("image").code) == (3, 3)


def test_a_lock_that_holds_what_the_artifact_is_not_is_refused(small: Small) -> None:
    small.write(LOCK, render_lock(base_lock()).replace(b'"version": "1.0-1"', b'"version": "1.0-2"', 1))
    ran = small.here("image", "--jobs", "1")
    assert ran.code == 2
    check_golden("errors/artifact-of-another-version.txt", shown(small, ran))
