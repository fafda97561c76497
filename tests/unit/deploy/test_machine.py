# SPDX-License-Identifier: Apache-2.0
"""What a machine and its engine say is read into values; what they could not say is never taken for a yes."""

from __future__ import annotations

import json
import time
from functools import cache
from typing import Any

import pytest

from derive.deploy import engines
from derive.deploy.machine import EngineSeen, Machine, machine, unheld_by
from derive.deploy.node.facts import facts
from derive.errors import Corrupt
from support.golden import GOLDEN

WANTED = {
    "name": "spark1",
    "folders": ["/var/lib/derive/none-such"],
    "mounts": ["/etc", "/none-such"],
    "files": [],
    "ports": [9],
    "modules": ["none_such"],
    "units": [],
    "lldp": False,
}


@cache
def said_here() -> str:
    """Return what the node's program says of this very machine."""
    return json.dumps(facts(dict(WANTED)))


def read(engine: Any = None, **changes: Any) -> Machine:
    """Read this machine's facts, with changes."""
    return machine("spark1", {**json.loads(said_here()), **changes}, engine, seen_ns=1_796_059_800 * 10**9)


def recorded_engine(store: str) -> dict[str, Any]:
    """Return what the engine's reader makes of what a real engine was recorded to say of itself."""

    class Recorded:
        """Answers as that engine did."""

        def info(self) -> Any:
            return json.loads((GOLDEN / "deploy" / f"inspect-{store}.json").read_text())["info"]

        def version(self) -> Any:
            return {"Version": self.info()["ServerVersion"], "ApiVersion": "1.45"}

    client: Any = Recorded()
    client.api = client
    return dict(engines.engine_facts(client))


def test_the_facts_of_this_very_machine_are_read() -> None:
    found = machine("spark1", json.loads(said_here()), None, seen_ns=time.time_ns())
    assert abs(found.skew_ns) < 60 * 10**9
    assert found.memory_total is not None
    assert found.memory_available is not None
    assert 0 < found.memory_available < found.memory_total
    assert found.python >= (3, 11)
    assert found.network is not None
    assert found.network.host == "spark1"
    assert found.disks["/var/lib/derive/none-such"].free_bytes > 0
    assert (found.mounts["/etc"].kind, found.mounts["/none-such"].kind) == ("folder", None)
    assert (found.modules, found.listening, found.units, found.engine) == ({}, frozenset(), {}, None)


@pytest.mark.parametrize(
    ("key", "attribute", "empty"),
    [
        ("memory", "memory_total", None),
        ("swaps", "swap", None),
        ("driver", "driver", None),
        ("user", "user", None),
        ("space", "disks", {}),
        ("mounts", "mounts", {}),
        ("ports", "listening", frozenset()),
        ("systemd", "systemd", None),
        ("cgroup", "cgroup", None),
        ("sudo", "sudo", False),
        ("network", "network", None),
        ("neighbours", "neighbours", None),
    ],
)
def test_what_could_not_be_gathered_is_unknown(key: str, attribute: str, empty: object) -> None:
    assert getattr(read(**{key: None}), attribute) == empty


def test_a_network_that_breaks_the_rules_of_facts_is_unread_with_the_reason() -> None:
    body = {**json.loads(said_here())["network"], "devices": 7}
    found = read(network=body)
    assert found.network is None
    assert any(one.startswith("network: body.devices: ") for one in found.unread)


@pytest.mark.parametrize("facts_of", [None, [], {}, {"derive": "machine-facts/2"}, {"derive": "machine-facts/1"}])
def test_what_is_no_facts_of_a_machine_is_refused_by_the_node(facts_of: Any) -> None:
    with pytest.raises(Corrupt) as caught:
        machine("spark2", facts_of, None, seen_ns=0)
    assert caught.value.where == "spark2"
    assert caught.value.detail[0] == "expected  machine-facts/1"


def test_systemd_counts_only_where_it_is_the_first_process() -> None:
    assert read(systemd={"version": 255, "running": False}).systemd is None
    assert read(systemd={"version": 255, "running": True}).systemd == 255


def test_units_that_are_not_there_are_left_out() -> None:
    units = {
        "a.service": {"load": "not-found", "active": "inactive"},
        "b.service": {"load": "loaded", "active": "active"},
    }
    assert read(units=units).units == {"b.service": "active"}


@pytest.mark.parametrize(("store", "kept"), [("overlay2", "graphdriver"), ("containerd", "containerd")])
def test_engines_of_both_image_stores_are_read(store: str, kept: str) -> None:
    engine = read(recorded_engine(store)).engine
    assert isinstance(engine, EngineSeen)
    assert (engine.version, engine.image_store, engine.cgroup_driver) == ("26.1.5+dfsg1", kept, "cgroupfs")
    assert engine.root == "/var/lib/docker"
    assert engine.unheld == frozenset()


def test_limits_that_an_engine_drops_are_known_by_its_warnings() -> None:
    both = ["WARNING: No memory limit support", "WARNING: No swap limit support"]
    assert unheld_by({"warnings": both}) == {"Memory", "MemorySwap"}
    assert unheld_by({"warnings": both[1:]}) == {"MemorySwap"}
    assert unheld_by({}) == frozenset()
