# SPDX-License-Identifier: Apache-2.0
"""R1 of the cases, from the command line: nothing is taken on trust, known by its content or fixed by the lock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.lock.documents import render_lock
from support.servers import Reply
from support.small import Small, base_lock, small_project

NOTES = "notes_1.0-1_amd64.deb"
MOVED = "pool/main/n/notes/elsewhere/notes_1.0-1_amd64.deb"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as project:
        yield project


def test_r1_a_random_number_is_caught_though_its_output_is_in_the_store_by_its_content(small: Small) -> None:
    """All outputs are: being there saves no step from the check."""
    script = small.root / "derivations/small/build.sh"
    script.write_text(script.read_text() + 'head -c 16 /dev/urandom > "$DERIVE_OUT/usr/share/hello/number"\n')
    image = small.here("image").answer
    ran = small.here("image", "--check")
    assert (ran.code, ran.out) == (1, "")
    told = re.compile(r"^differs: hello, output out: usr/share/hello/number, contents, at byte \d+$", re.MULTILINE)
    assert told.search(ran.err)
    assert small.here("image").answer == image


def test_r1_a_fixed_output_whose_fetch_changed_is_run_again_and_other_bytes_are_caught(small: Small) -> None:
    """What the lock fixes is here by its hash; that the fetch says otherwise now is reason enough to run it."""
    assert small.here("image").code == 0
    lock = base_lock()
    debs = tuple(replace(one, locator=MOVED) if one.file == NOTES else one for one in lock.debs)
    small.write("lock/base.lock.json", render_lock(replace(lock, debs=debs)))
    small.server.serve(f"/debian/{MOVED}", Reply(body=b"other bytes"))
    ran = small.here("image")
    assert (ran.code, NOTES in ran.err) == (3, True)
    assert f"/debian/{MOVED}" in small.server.paths(), "it is asked again"
    assert small.here("image", "--offline").code == 3, "nor is what is here taken in its stead"
