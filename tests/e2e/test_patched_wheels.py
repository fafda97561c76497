# SPDX-License-Identifier: Apache-2.0
"""A series on a wheel of a locked set: psutil, which has a wheel of its own for each platform."""

from __future__ import annotations

import base64
import hashlib
import json
import marshal
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from derive.canonical import Digest
from derive.store.local import LocalStore
from derive.store.protocol import read_all
from derive.trees.materialise import remove_folder
from support.cli import Ran
from support.derived import Derived
from support.small import run_here
from support.variants import copy_checkout, copy_store, edit

SITE = b"usr/local/lib/python3.13/dist-packages/"
INFO = SITE + b"psutil-7.2.2.dist-info/"
PATCH = "patches/psutil/0001-name-the-series.patch"
TEXT = """\
Description: Say that this is a patched psutil
Origin: vendor
When-To-Drop: with this test

--- a/psutil-7.2.2.dist-info/METADATA
+++ b/psutil-7.2.2.dist-info/METADATA
@@ -1,7 +1,7 @@
{before}
-{summary}
+Summary: Patched
{after}
--- /dev/null
+++ b/psutil/_series.py
@@ -0,0 +1 @@
+SERIES = "psutil"
"""


@dataclass(frozen=True, slots=True)
class Patched:
    """A copy of the checkout with the series, a store, and the digest of ``probe-wheels`` built there."""

    checkout: Path
    store: Path
    digest: str

    def here(self, *arguments: str) -> Ran:
        """Run a command in the copy."""
        return here(self.checkout, self.store, *arguments)


def here(checkout: Path, store: Path, *arguments: str) -> Ran:
    """Run a command in this process."""
    return run_here(*arguments, "--project", str(checkout), "--store", str(store))


def built(checkout: Path, store: Path) -> str:
    """Build the wheels, and return the digest of their tree."""
    ran = here(checkout, store, "build", "probe-wheels")
    assert ran.code == 0, ran.err
    return ran.answer


def contents(store: Path, digest: str) -> dict[bytes, bytes]:
    """Return the files of psutil in a tree."""
    with LocalStore(store) as opened:
        tree = opened.listing(Digest.parse(digest.removeprefix("tree:")))
        return {path: read_all(opened, entry) for path, entry in tree.files() if b"/psutil" in path}


@pytest.fixture(scope="module")
def patched(derived: Derived, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patched]:
    """Write the series, name it for psutil, and build the wheels once."""
    place = tmp_path_factory.mktemp("patched")
    checkout, store = copy_checkout(place / "checkout"), copy_store(derived.store, place / "store")
    about = [f" {row}" for row in contents(store, built(checkout, store))[INFO + b"METADATA"].decode().splitlines()]
    text = TEXT.format(before="\n".join(about[:3]), summary=about[3][1:], after="\n".join(about[4:7]))
    (checkout / PATCH).parent.mkdir()
    (checkout / PATCH).write_text(text)
    (checkout / "patches/psutil/series").write_text("# licence: BSD-3-Clause\n0001-name-the-series.patch\n")
    with (checkout / "derivations/probe.toml").open("a") as file:
        file.write('\n[probe-wheels.patches]\npsutil = "psutil"\n')
    yield Patched(checkout, store, built(checkout, store))
    remove_folder(store)


@pytest.fixture
def other(patched: Patched, tmp_path: Path) -> Path:
    """Return a copy of the checkout with the series, which a test may change."""
    shutil.copytree(patched.checkout, tmp_path / "checkout")
    return tmp_path / "checkout"


def test_a_patched_wheel_is_installed_as_patched_and_its_byte_code_and_record_follow(patched: Patched) -> None:
    tree = contents(patched.store, patched.digest)
    assert b"\nSummary: Patched\n" in tree[INFO + b"METADATA"]
    assert tree[SITE + b"psutil/_series.py"] == b'SERIES = "psutil"\n'
    code = marshal.loads(tree[SITE + b"psutil/__pycache__/_series.cpython-313.pyc"][16:])
    assert "psutil" in code.co_consts
    rows = tree[INFO + b"RECORD"].decode().splitlines()
    for path in ("psutil/_series.py", "psutil/__pycache__/_series.cpython-313.pyc", "psutil-7.2.2.dist-info/METADATA"):
        sha256 = base64.urlsafe_b64encode(hashlib.sha256(tree[SITE + path.encode()]).digest()).decode().rstrip("=")
        assert f"{path},sha256={sha256},{len(tree[SITE + path.encode()])}" in rows


def test_only_the_sources_that_a_patch_changed_are_compiled(patched: Patched) -> None:
    last = patched.here("log", "psutil 7.2.2 byte code").out.splitlines()[-1]
    count = sum(path.endswith(b".py") for path in contents(patched.store, patched.digest))
    assert last == f"{count} sources, {count - 1} of them compiled before"


def test_r5_a_header_edited_gives_the_same_digest_warm_and_where_the_wheel_is_built_again(
    patched: Patched, derived: Derived, other: Path, tmp_path: Path
) -> None:
    edit(other / PATCH, "Origin: vendor", "Origin: other, a friend\nAuthor: Somebody <somebody@example.org>")
    assert " 0 to build" in here(other, patched.store, "plan", "probe-wheels").out
    assert built(other, patched.store) == patched.digest
    cold = copy_store(derived.store, tmp_path / "cold")
    try:
        assert built(other, cold) == patched.digest
    finally:
        remove_folder(cold)


def test_a_hunk_edited_is_built_moves_the_digest_and_is_the_cause(patched: Patched, other: Path) -> None:
    edit(other / PATCH, '+SERIES = "psutil"', '+SERIES = "other"')
    plan = json.loads(here(other, patched.store, "plan", "probe-wheels", "--all", "--json").out)["body"]
    steps = {"patched", "7.2.2 installed", "7.2.2 byte code", "7.2.2 recorded"}
    wanted = {f"psutil {step}" for step in steps} | {"probe-wheels"}
    assert {step["name"] for step in plan["steps"] if step["action"] == "build"} == wanted
    assert built(other, patched.store) != patched.digest
    (cause,) = json.loads(here(other, patched.store, "why", "probe-wheels", "--json").out)["body"]["causes"]
    assert (cause["difference"]["patch"], cause["difference"]["path"]) == (PATCH, "psutil/_series.py")


def test_why_names_the_patch_that_a_wheel_did_not_have_before(patched: Patched) -> None:
    (cause,) = json.loads(patched.here("why", "probe-wheels", "--json").out)["body"]["causes"]
    assert (cause["difference"]["kind"], cause["difference"]["patch"]) == ("patch-added", PATCH)


def test_status_judges_the_series_on_the_wheel_of_each_platform(patched: Patched, other: Path) -> None:
    ran = patched.here("patches", "status", "psutil", "--json")
    series = json.loads(ran.out)["body"]["series"]
    assert ["aarch64" in one["source"] for one in series] == [False, True]
    assert [patch["state"] for one in series for patch in one["patches"]] == ["applies", "applies"]
    (one,) = [one["source"] for one in series if "aarch64" in one["source"]]
    assert f"on {one} (tree " in here(other, patched.store, "patches", "status", "psutil", "--onto", one).out
    ran = here(other, patched.store, "patches", "status", "psutil", "--onto", one.replace("7.2.2", "7.2.3"))
    assert (ran.code, f"did you mean {one}?" in ran.err) == (2, True)


def test_a_file_that_a_patch_made_comes_from_the_patched_tree_and_any_other_from_the_wheel(patched: Patched) -> None:
    made = patched.here("why", f"/{SITE.decode()}psutil/_series.py", "--in", "probe-wheels").out.splitlines()
    assert made[-1].strip().startswith("patched: psutil patched  patch, ")
    kept = patched.here("why", f"/{SITE.decode()}psutil/__init__.py", "--in", "probe-wheels").out.splitlines()
    assert "fetch-wheel" in kept[-1]


def test_without_its_patch_a_wheel_is_the_one_of_the_lock_so_that_it_counts(patched: Patched) -> None:
    ran = patched.here("patches", "status", "psutil", "--outputs", "probe-wheels", "--json")
    assert ran.code == 0, ran.err
    without = [patch["without"] for one in json.loads(ran.out)["body"]["series"] for patch in one["patches"]]
    assert without == ["changes probe-wheels: out"] * 2


def test_a_series_on_a_wheel_is_edited_in_a_work_tree_as_any_other(patched: Patched, other: Path) -> None:
    tree = Path(here(other, patched.store, "patches", "edit", "psutil").answer)
    assert (tree / "psutil/_series.py").read_text() == 'SERIES = "psutil"\n'
    (tree / "psutil/_series.py").write_text('SERIES = "edited"\n')
    assert here(other, patched.store, "patches", "refresh", "psutil", "0001").code == 0
    assert '+SERIES = "edited"\n' in (other / PATCH).read_text()
    assert subprocess.run(["git", "-C", tree, "status", "--porcelain"], capture_output=True, check=True).stdout == b""
