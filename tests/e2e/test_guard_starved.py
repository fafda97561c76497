# SPDX-License-Identifier: Apache-2.0
"""A real container takes memory until less than a floor is available: how long it lives from then on.

``make lab`` does fifty rounds of each (``support.starving.measure``); here are a few, each within the limit.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.busybox import busybox_image
from support.derived import Derived
from support.docker_engine import DockerEngine
from support.engine_nodes import EngineNodes
from support.memguard import built
from support.starving import IMAGE, LIMITS_MS, churning, rounds, spread

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def engine(two_nodes: EngineNodes) -> DockerEngine:
    running = two_nodes.engines["spark1"]
    busybox_image(running, IMAGE)
    return running


@pytest.mark.parametrize(("interval", "count"), [("0.25", 3), ("2", 1)])
def test_a_container_that_starves_the_machine_is_killed_in_time(
    engine: DockerEngine, derived: Derived, tmp_path: Path, interval: str, count: int
) -> None:
    with churning(tmp_path):
        found = list(rounds(engine, built(derived.store), tmp_path, interval=interval, count=count))
    assert [(one.container, one.guard) for one in found] == [(137, 3)] * count
    assert spread(found)["max_ms"] <= LIMITS_MS[interval]
