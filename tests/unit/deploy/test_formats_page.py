# SPDX-License-Identifier: Apache-2.0
"""The page of formats has every key of what commands answer and what is kept of an incident."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from derive.canonical import Json
from derive.deploy.incident import Budget, Incident, deaths
from derive.deploy.kernel_log import KernelKill
from derive.deploy.plan import make
from derive.deploy.status import NodeSeen, status
from support.cli import CHECKOUT
from support.deploying import container_of, site_of, state, target
from support.ended import GOOD_GUARD, SERVED, ended, kill, rank

PAGE = (CHECKOUT / "docs/formats/deploy.md").read_text()
PROBE = target()


def plan() -> Mapping[str, Json]:
    return make(PROBE, site_of(PROBE), None, (), ()).document()


def shown() -> Mapping[str, Json]:
    launch = PROBE.bundle.launches[0]
    seen = NodeSeen(
        node=launch.node, rank=0, state=state(), containers=(container_of(launch),), guards=(GOOD_GUARD,), trouble=None
    )
    return status(launch.name, [seen, NodeSeen(node="lost", rank=1, trouble="no route")]).document()


def incident() -> Mapping[str, Json]:
    kernel = KernelKill(process="a", pid=1, resident_bytes=2, own_limit=True)
    found = deaths([rank(0, ended(9), kernel=kernel), rank(1, ended(7, 137), kills=(kill(7),))])
    budget = Budget(restarts=3, within_s=60)
    return Incident(
        service="probe",
        served=SERVED,
        deaths=found,
        at_s=1,
        decided="restart",
        why="",
        restarts=1,
        budget=budget,
        stopped={},
        logs=None,
    ).body()


def keys(of: Any, told: frozenset[str] = frozenset({"stopped"})) -> Iterator[str]:
    """Yield every key of a document, but for those below keys that are names of nodes or another page's."""
    if isinstance(of, Mapping):
        for key, value in of.items():
            yield key
            if key not in told:
                yield from keys(value)
    elif isinstance(of, Sequence) and not isinstance(of, str):
        for one in of:
            yield from keys(one)


@pytest.mark.parametrize("body", [plan(), shown(), incident()], ids=["deploy-plan", "status", "incident"])
def test_every_key_is_on_the_page(body: Mapping[str, Json]) -> None:
    missing = {key for key in keys(body) if f"`{key}`" not in PAGE}
    assert not missing
