# SPDX-License-Identifier: Apache-2.0
"""Releases are derived again from their capsules alone, when store, network and mirror are lost; faults are named."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from derive.canonical import Digest
from derive.capsule.read import open_capsule
from support.auditing import Lost, release_and_lose, verdict_of
from support.cli import SOURCES, Ran
from support.engine import BuiltEngine
from support.small import run_here

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory, built_engine: BuiltEngine) -> Lost:
    return release_and_lose(tmp_path_factory.mktemp("audit"), built_engine)


@pytest.fixture(scope="module")
def diced(lost: Lost, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    """The audit of the release whose script gives random bytes, and the folder that it worked in."""
    scratch = tmp_path_factory.mktemp("diced") / "scratch"
    return lost.audit("dice", "--scratch", str(scratch)), scratch


@pytest.fixture(scope="module")
def first(lost: Lost, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    """The audit of the release of both platforms, and the folder that it worked in."""
    scratch = tmp_path_factory.mktemp("first") / "scratch"
    return lost.audit("first", "--scratch", str(scratch)), scratch


@pytest.fixture(scope="module")
def second(lost: Lost, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    """The audit of another by an engine whose builder ``patch`` changed without a new version, which derives it too."""
    place = tmp_path_factory.mktemp("second")
    change_patch(place)
    env = {"PYTHONPATH": str(place)}
    return lost.audit("second", "--today", "--scratch", str(place / "scratch"), env=env), place / "scratch"


@dataclass(frozen=True, slots=True)
class Stopped:
    """How an audit ended that was interrupted, what it had said from then on, and how the same one after it ended."""

    code: int
    rest: str
    again: Ran
    scratch: Path


@pytest.fixture(scope="module")
def third(lost: Lost, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """The audit of the last one, interrupted while its engine derives, and run again."""
    scratch = tmp_path_factory.mktemp("third") / "scratch"
    arguments = ("third", "--scratch", str(scratch))
    with lost.start(*arguments) as running:
        assert running.stderr is not None
        seen = ""
        while "to fetch" not in seen:
            seen = running.stderr.readline()
            assert seen, "it ended before it was stopped"
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
        code = running.wait(60)
    return Stopped(code, rest, lost.audit(*arguments), scratch)


def test_each_release_is_derived_again_from_its_capsule_alone_to_the_same_digests(
    lost: Lost, first: tuple[Ran, Path], second: tuple[Ran, Path], third: Stopped
) -> None:
    for name, ran in (("first", first[0]), ("second", second[0]), ("third", third.again)):
        images = ", ".join(f"{platform} {digest}" for platform, digest in sorted(lost.images[name].items()))
        assert re.match(rf"the same: \d+ derivations, \d+ outputs, image {images}\n", ran.out), ran.err
        assert "to derive again: about " in ran.err


def test_an_audit_that_found_nothing_ends_well_and_leaves_nothing(first: tuple[Ran, Path], third: Stopped) -> None:
    assert (first[0].code, third.again.code) == (0, 0)
    assert first[0].out.count("\n") == 1
    assert not first[1].exists()
    assert not third.scratch.exists()


def test_what_the_releases_differ_in_is_what_was_changed(lost: Lost) -> None:
    assert len(set(lost.releases.values())) == 4
    one, two, three = (lost.images[name] for name in ("first", "second", "third"))
    assert one["linux/amd64"] != two["linux/amd64"] == three["linux/amd64"]


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 13), reason="this interpreter is of the version that the engine runs on"
)
def test_an_engine_whose_python_the_host_has_not_runs_in_its_own_root(diced: tuple[Ran, Path]) -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    words = f"the engine of then runs on Python 3.13, this one on {here}: it runs in its own locked root"
    assert words in diced[0].err


def test_a_script_that_writes_a_random_number_is_named_with_the_file(diced: tuple[Ran, Path]) -> None:
    ran, _ = diced
    assert ran.code == 1, ran.err
    assert "differs first: hello, script/1, linux/amd64: all its inputs agree\n" in ran.out
    assert "    usr/share/hello/number: other contents\n      first differs at byte " in ran.out
    cause = "  built a second time it differs from itself: the step gives other bytes each time (random, or the time)\n"
    assert cause in ran.out
    assert "  differ because of it: 3 derivations\n" in ran.out


def test_a_nested_archive_of_equal_size_that_differs_is_shown_down_to_the_inner_file(diced: tuple[Ran, Path]) -> None:
    shown = diced[0].out.partition("usr/share/hello/third-party.tar: other contents\n")[2]
    assert re.search(r"n/inner\.tar: other contents\n +x: .*\n? *x: other contents\n +first differs at byte", shown)


@pytest.fixture(scope="module")
def resumed(diced: tuple[Ran, Path], lost: Lost) -> Ran:
    """The same audit again in the same folder, with the store in which the release was made."""
    store = {"DERIVE_STORE": str(lost.empty.parent / "lost-store")}
    return lost.audit("dice", "--scratch", str(diced[1]), "--json", env=store)


def test_an_audit_that_found_something_keeps_its_folder_and_goes_on_in_it(
    diced: tuple[Ran, Path], resumed: Ran, lost: Lost
) -> None:
    ran, scratch = diced
    assert f"kept: {scratch}" in ran.err
    assert resumed.code == 1
    assert f"going on in {scratch}" in resumed.err
    assert "fetched" not in resumed.err
    assert "to build" not in resumed.err, "the step that differs is built again alone"
    other = lost.audit("first", "--scratch", str(scratch))
    assert other.code == 2
    assert "the folder of an audit of another release" in other.err


def test_an_engine_builds_again_what_a_release_has_a_step_for_and_says_where_it_has_none(lost: Lost) -> None:
    project = lost.empty.parent / "lost-small"
    facts = json.loads((project / "records/releases/dice/facts.json").read_bytes())
    steps = {row["builder"]: key for key, row in facts["images"]["linux/amd64"]["derivations"].items()}
    for key, words in (
        ("0" * 64, "no step of the release is 0000"),
        (steps["fetch-deb/1"], "is fetched, and not built"),
        (steps["script/1"], "without --write-to it has no place"),
    ):
        asked = ("release", "x", "--recipe", "serve", "--again", key, "--project", str(project))
        ran = run_here(*asked, env=lost.environment)
        assert ran.code == 2
        assert "error: --again: " in ran.err
        assert words in ran.err


def test_recorded_bytes_that_a_store_has_are_shown_beside_what_came_out(resumed: Ran) -> None:
    found = verdict_of(resumed)
    assert found["outcome"] == "differs"
    first = found["first"]
    assert isinstance(first, dict)
    assert (first["name"], first["builder"]) == ("hello", "script/1")
    assert first["shown_of"] == "output out, recorded and got"
    assert isinstance(first["shown"], list)
    assert first["shown"][0] == "usr/share/hello/number: other contents"


def change_patch(place: Path) -> None:
    """Copy the engine, and let its builder ``patch`` make every file executable, under the version that it has."""
    shutil.copytree(SOURCES / "derive", place / "derive", ignore=shutil.ignore_patterns("__pycache__"))
    builder = place / "derive/build/builders/patch.py"
    told = 'return {"out": context.tree(request, listing)}'
    changed = """from derive.trees.listing import File, Listing
    entries = {path: File(True, e.size, e.sha256, e.at) if isinstance(e, File) else e for path, e in listing.items()}
    return {"out": context.tree(request, Listing(entries))}"""
    assert told in builder.read_text()
    builder.write_text(builder.read_text().replace(told, changed))


def test_a_builder_that_changed_without_a_new_version_is_named(second: tuple[Ran, Path]) -> None:
    ran, _ = second
    assert ran.code == 1, ran.err
    assert ran.out.startswith("the same: ")
    words = "builder patch/1 changed without a new version: equal ids, other outputs: hello-patched\n"
    assert ran.out.endswith(words)


def test_an_interrupted_audit_says_so_and_goes_on_when_run_again(third: Stopped) -> None:
    assert third.code == 130
    assert f"interrupted; what was derived is kept in {third.scratch}" in third.rest
    assert f"hint: run the same command again: it goes on in {third.scratch}" in third.rest
    assert f"going on in {third.scratch}" in third.again.err


def altered(lost: Lost, place: Path, kind: str, name: str) -> tuple[Path, Digest]:
    """Copy the capsules, and change one byte of what a release takes; return the copy and the blob's digest."""
    shutil.copytree(lost.capsule, place)
    document = next(one for one in open_capsule(place).releases if one.name == "first")
    digest = document.of(kind)[name]
    blob = place / "blobs/sha256" / digest.hex
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 1
    blob.chmod(0o644)
    blob.write_bytes(data)
    return place, digest


def test_an_altered_upstream_file_is_named_before_anything_is_built(lost: Lost, tmp_path: Path) -> None:
    kind = "fetch-deb"
    names = next(one for one in open_capsule(lost.capsule).releases if one.name == "first").of(kind)
    name = next(one for one in names if "busybox" in one)
    capsule, digest = altered(lost, tmp_path / "altered", kind, name)
    for ran in (lost.audit("first", capsule=capsule), lost.look("first", capsule=capsule)):
        assert ran.code == 1
        assert f"fetch-deb {name} was altered: the capsule's copy is not what its name says\n" in ran.out
        assert re.search(rf"  expected  {digest}\n  got       sha256:[0-9a-f]{{64}}\n", ran.out)
        assert ran.out.endswith("first is not as it was recorded: nothing was built\n")
        assert "to fetch" not in ran.err


def test_an_edited_record_is_found_in_a_project_and_in_a_capsule(lost: Lost, tmp_path: Path) -> None:
    shutil.copytree(lost.empty.parent / "lost-small", tmp_path / "project")
    record = tmp_path / "project/records/releases/0001-first.json"
    document = json.loads(record.read_bytes())
    document["body"]["made_by"] = "somebody else"
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    record.write_bytes(text.encode() + b"\n")
    ran = lost.look("first", cwd=tmp_path / "project")
    assert ran.code == 1
    assert "0001-first.json: edited since it was written: 0002-second.json names another digest of it\n" in ran.out
    capsule, _ = altered(lost, tmp_path / "altered", "record", "0001-first.json")
    ran = lost.look("first", capsule=capsule)
    assert ran.code == 1
    assert "record 0001-first.json" in ran.out
    assert "is not what its name says" in ran.out


def test_a_capsule_of_another_release_is_refused(lost: Lost) -> None:
    ran = lost.look("fourth")
    assert ran.code == 2
    assert "a capsule of another release\n       expected  fourth\n       got       dice sha256:" in ran.err


def test_a_release_is_found_by_its_digest_and_by_its_record(lost: Lost) -> None:
    for operand in (lost.releases["second"], f"release:{lost.releases['second'][7:25]}"):
        assert lost.look(operand).out.startswith("second is as it was recorded; nothing was built\n")
    record = lost.empty.parent / "lost-small/records/releases/0002-second.json"
    ran = lost.look(str(record), cwd=lost.empty)
    assert ran.out.startswith("second is as it was recorded; nothing was built\n"), ran.err


def test_verdicts_are_kept_in_a_chain_of_their_own(lost: Lost, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(lost.empty.parent / "lost-small", project)
    for name in ("first", "second"):
        ran = lost.look(name, "--record", cwd=project)
        assert ran.code == 0, ran.err
    paths = sorted((project / "records/audits").iterdir())
    assert [path.name for path in paths] == ["0001-first.json", "0002-second.json"]
    first, second = (json.loads(path.read_bytes()) for path in paths)
    assert (first["kind"], first["previous"], first["body"]["outcome"]) == ("audit", None, "whole")
    assert second["previous"].startswith("sha256:")
    paths[0].write_bytes(paths[0].read_bytes().replace(b'"whole"', b'"same"'))
    ran = lost.look("third", "--record", cwd=project)
    assert ran.code == 1
    assert "0001-first.json: edited since it was written: 0002-second.json names another digest of it" in ran.err


def test_a_host_without_bubblewrap_is_told_so(lost: Lost, tmp_path: Path) -> None:
    ran = lost.audit("first", "--scratch", str(tmp_path / "scratch"), env={"PATH": str(tmp_path)})
    assert ran.code == 3
    assert "bubblewrap is not installed" in ran.err


def test_without_project_and_capsule_there_is_nothing_to_audit(lost: Lost) -> None:
    ran = lost.look("first", cwd=lost.empty)
    assert ran.code == 2
    assert "no project is here, and nothing says what first is" in ran.err
    assert "--capsule FILE" in ran.err
