# SPDX-License-Identifier: Apache-2.0
"""What was last seen of machines, and is judged without asking them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from derive.deploy.kept import Kept
from derive.deploy.node.facts import facts
from derive.deploy.seeing import stored
from support.deploying import target

PROBE = target()
NODES = tuple(launch.node for launch in PROBE.bundle.launches)
_NONE = ("folders", "mounts", "files", "ports", "modules", "units", "lldp")


@pytest.mark.parametrize("late_s", [0, 3])
def test_stored_facts_say_nothing_of_a_clock(late_s: int, tmp_path: Path) -> None:
    kept = Kept(folder=tmp_path)
    said = json.loads(json.dumps(facts({"name": "x", **{key: [] for key in _NONE}})))
    seen_s = said["at_ms"] // 1000 - late_s
    for name in NODES:
        kept.write_facts(name, seen_s, said, None)
    seen = stored(PROBE, kept)
    assert seen is not None
    assert ({one.skew_ns for one in seen.machines.values()}, seen.seen_s) == ({0}, seen_s)
