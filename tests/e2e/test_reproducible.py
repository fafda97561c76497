# SPDX-License-Identifier: Apache-2.0
"""The same digest whoever derives, wherever, in whatever surroundings; another digest where the content is another."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cli import CHECKOUT, derive
from support.derived import AMD64, ARM64, Derived
from support.mirror import Mirror
from support.small import Small, small_project
from support.variants import edit_header, edit_hunk, edit_series_comment, elsewhere, rename_patch

# What a changed hunk of perftest's series touches, and nothing else.
TOUCHED = {"perftest-patched", "perftest", "probe layer perftest", "probe root", "probe"}
ODD_LOCALE = {"LC_ALL": "tr_TR.ISO-8859-9", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def plan(project: Path, store: Path) -> dict[str, set[str]]:
    """Return the names of the steps of the image's plan, by what they do, and the derivation id."""
    ran = derive("plan", "probe", "--all", "--json", "--project", str(project), "--store", str(store))
    body = json.loads(ran.answer)["body"]
    found: dict[str, set[str]] = {"id": {body["derivation"]}, "fetch": set(), "build": set(), "reuse": set()}
    for step in body["steps"]:
        found[step["action"]].add(step["name"])
    return found


def layers(store: Path, image: str) -> list[str]:
    """Return the digests of an image's layers."""
    manifest = json.loads((store / "blobs/sha256" / image.removeprefix("sha256:")).read_bytes())
    return [layer["digest"] for layer in manifest["layers"]]


def test_another_user_elsewhere_derives_the_same_digest_from_nothing(derived: Derived, mirror: Mirror) -> None:
    """One cold run in which all else differs: whatever of it decided a byte would show."""
    surroundings = {**ODD_LOCALE, "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "random"}
    with elsewhere() as there:
        edit_header(there.checkout)
        ran = there.derive(
            *("image", "probe", "--platform", AMD64, "--jobs", "1"),
            env={**mirror.environment, **surroundings},
            shuffled=True,
            umask=0o077,
        )
        assert (ran.code, ran.out) == (0, f"{derived.digests[AMD64]}\n"), ran.err
        # It was that user's own work, and none of it open to others.
        made = (there.home / ".local/share/derive/store").stat()
        assert (made.st_uid, made.st_mode & 0o077) == (there.home.stat().st_uid, 0)


@pytest.mark.parametrize("change", [edit_header, edit_series_comment, rename_patch])
def test_what_a_patch_is_called_and_told_to_be_moves_nothing(
    derived: Derived, checkout: Path, change: Callable[[Path], None]
) -> None:
    before = plan(CHECKOUT, derived.store)
    change(checkout)
    assert plan(checkout, derived.store) == before
    assert not before["build"]


def test_r5_a_patch_header_edited_gives_the_same_digest_where_all_is_built(
    derived: Derived, warm: Path, checkout: Path
) -> None:
    edit_header(checkout)
    ran = derive("image", "probe", "--platform", AMD64, "--project", str(checkout), "--store", str(warm))
    assert ran.answer == derived.digests[AMD64]
    assert ran.err == ""


def test_a_hunk_edited_rebuilds_what_hangs_on_it_and_moves_the_digest(
    derived: Derived, warm: Path, checkout: Path
) -> None:
    before = plan(CHECKOUT, warm)
    edit_hunk(checkout)
    ahead = plan(checkout, warm)
    assert (ahead["build"], ahead["fetch"]) == (TOUCHED, set())
    assert {"toolchain", "perftest-source", "probe layer userland", "probe layer wheels"} <= ahead["reuse"]
    assert ahead["id"] != before["id"]
    ran = derive("image", "probe", "--platform", AMD64, "--project", str(checkout), "--store", str(warm))
    assert ran.answer != derived.digests[AMD64]
    assert f"0 to fetch, {len(TOUCHED)} to build" in ran.err
    old, new = (layers(warm, image) for image in (derived.digests[AMD64], ran.answer))
    assert [one == other for one, other in zip(old, new, strict=True)] == [True, True, True, False, True]
    # What the two patched programs were built from is still there: back to the old hunk, nothing is to be done.
    again = derive("image", "probe", "--platform", AMD64, "--store", str(warm))
    assert (again.answer, again.err) == (derived.digests[AMD64], "")


def test_each_platform_has_a_digest_of_its_own(derived: Derived) -> None:
    assert len(set(derived.digests.values())) == 2
    # The libraries differ, and what a patched program is built from does not.
    shared = set(layers(derived.store, derived.digests[AMD64])) & set(layers(derived.store, derived.digests[ARM64]))
    assert not shared


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as project:
        yield project


def test_the_order_in_which_platforms_are_asked_for_moves_nothing(small: Small, tmp_path: Path) -> None:
    digests = []
    for order in ((AMD64, ARM64), (ARM64, AMD64)):
        store = tmp_path / f"store {order[0][-5:]}"
        found = {p: small.here("image", "--platform", p, "--store", str(store)).answer for p in order}
        digests.append(found)
    assert digests[0] == digests[1]
    assert len(set(digests[0].values())) == 2


def test_r5_a_patch_header_edited_gives_the_same_digest_warm_and_cold(small: Small, tmp_path: Path) -> None:
    before = small.here("image").answer
    small.edit("patches/hello/0001-greet.patch", "Description: greet the world", "Description: say it to all")
    assert small.here("image").answer == before, "warm"
    assert small.here("image", "--store", str(tmp_path / "cold")).answer == before, "cold"


# Each alone, where it is cheap, so that a failure of the cold run above has a name.
ALONE: dict[str, dict[str, str]] = {
    "another time zone": {"TZ": "Asia/Kathmandu"},
    "another locale": ODD_LOCALE,
    "other hashes": {"PYTHONHASHSEED": "7"},
    "another time": {"SOURCE_DATE_EPOCH": "1"},
    "optimised": {"PYTHONOPTIMIZE": "2"},
}


@pytest.mark.parametrize("changes", ALONE.values(), ids=ALONE)
def test_no_variable_of_the_environment_moves_the_digest(small: Small, tmp_path: Path, changes: dict[str, str]) -> None:
    usual = small.here("image").answer
    assert small.derive("image", "--store", str(tmp_path / "other"), env=changes).answer == usual


@pytest.mark.parametrize("options", [("--jobs", "1"), ("--jobs", "5")], ids=" ".join)
def test_no_job_count_moves_the_digest(small: Small, tmp_path: Path, options: tuple[str, str]) -> None:
    usual = small.here("image", "--jobs", "2").answer
    assert small.here("image", "--store", str(tmp_path / "other"), *options).answer == usual


def test_neither_umask_nor_the_order_of_folders_moves_the_digest(small: Small, tmp_path: Path) -> None:
    usual = small.here("image").answer
    for index, (umask, shuffled) in enumerate([("077", False), ("000", False), ("022", True)]):
        ran = derive(
            *("image", "--store", str(tmp_path / f"other{index}")),
            env=small.environment,
            cwd=small.root,
            before=("sh", "-c", f'umask {umask}; exec "$@"', "sh"),
            shuffled=shuffled,
        )
        assert ran.answer == usual
