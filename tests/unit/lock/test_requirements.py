# SPDX-License-Identifier: Apache-2.0
"""The requirements file that pip is given."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

from derive.canonical import Digest
from derive.lock.documents import PythonLock
from derive.lock.requirements import marker_for, render_requirements
from support.locks import python_lock, wheel

EVERY = frozenset(product(("3.9", "3.11", "3.13"), ("amd64", "arm64")))
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


@pytest.mark.parametrize("count", range(1, 7))
def test_a_marker_picks_just_the_targets_asked_for(count: int) -> None:
    for wanted in combinations(sorted(EVERY), count):
        text = marker_for(frozenset(wanted), EVERY)
        picked = {
            (python, architecture)
            for python, architecture in EVERY
            if not text or Marker(text).evaluate({"python_version": python, "platform_machine": MACHINES[architecture]})
        }
        assert picked == set(wanted)


def test_equal_targets_need_no_marker_and_every_wheel_has_its_hash() -> None:
    text = render_requirements(python_lock())
    hashes = sorted(entry.sha256.hex for entry in python_lock().wheels[1:])
    assert text == (
        "# Generated from lock/x.lock.json by derive lock; do not edit.\n"
        f"a==1.0 \\\n    --hash=sha256:{python_lock().wheels[0].sha256.hex}\n"
        f"n==1.0 \\\n    --hash=sha256:{hashes[0]} \\\n    --hash=sha256:{hashes[1]}\n"
    )


def test_versions_that_differ_by_target_get_markers() -> None:
    one, two = wheel("a"), replace(wheel("a", version="2.0"), sha256=Digest("2" * 64))
    lock = PythonLock(
        set="x",
        wish=Digest("1" * 64),
        wheels=(one, two),
        targets={"cp311-amd64": (one.file,), "cp313-amd64": (two.file,), "cp313-arm64": (two.file,)},
    )
    lines = [line.removesuffix(" \\") for line in render_requirements(lock).splitlines() if line.startswith("a==")]
    assert [str(Requirement(line)) for line in lines] == [
        'a==1.0; python_version == "3.11"',
        'a==2.0; python_version == "3.13"',
    ]
