# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from derive.audit.estimate import estimate
from derive.audit.scratch import open_scratch, require_space
from derive.canonical import sha256
from derive.derivations.model import FlatOutput
from derive.errors import HostRefuses, InputErrors
from derive.releases.facts import Realised
from support.released import facts_of, release_of

ONE, TWO = sha256(b"one"), sha256(b"two")
RELEASE = release_of(sha256(b"image"))
FACTS = facts_of(
    RELEASE,
    {
        ONE: Realised(name="a", builder="script/1", outputs={"out": FlatOutput(ONE)}),
        TWO: Realised(name="b", builder="fetch-deb/1", outputs={"out": FlatOutput(TWO)}),
    },
)


def test_a_folder_is_made_and_gone_on_in_for_the_same_release(tmp_path: Path) -> None:
    assert not open_scratch(tmp_path / "a/b", ONE).resumed
    assert open_scratch(tmp_path / "a/b", ONE).resumed


def test_a_folder_of_another_release_is_refused(tmp_path: Path) -> None:
    open_scratch(tmp_path, ONE)
    with pytest.raises(InputErrors) as caught:
        open_scratch(tmp_path, TWO)
    assert caught.value.problems()[0].message == "the folder of an audit of another release"


def test_a_folder_with_anything_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputErrors) as caught:
        open_scratch(tmp_path, ONE)
    assert caught.value.problems()[0].message == "not the folder of an audit"
    assert (tmp_path / "thesis.txt").exists()


def test_without_space_nothing_begins(tmp_path: Path) -> None:
    with pytest.raises(HostRefuses) as caught:
        require_space(tmp_path / "absent", 1 << 59)
    assert caught.value.message == f"no space for an audit in {tmp_path / 'absent'}"
    assert caught.value.detail[0] == "needed    576461 TB"
    require_space(tmp_path, 1)


def test_time_is_the_recorded_one_or_guessed_by_the_steps_that_build() -> None:
    recorded = estimate({"duration_ns": 5_000_000_000, "store_bytes": 1000}, FACTS, 0)
    assert (recorded.duration_ns, recorded.is_recorded) == (5_000_000_000, True)
    guessed = estimate(None, FACTS, 1000)
    assert (guessed.duration_ns, guessed.is_recorded) == (8_000_000_000, False)
    assert guessed.disk_bytes - recorded.disk_bytes == 3000
    assert "about 5.00 s (as it took when it was made)" in recorded.text(10**9, "/there")
