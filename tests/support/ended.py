# SPDX-License-Identifier: Apache-2.0
"""Containers and ranks of a service as values, for what judges them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from derive.canonical import Digest
from derive.deploy.guard_records import GuardKill
from derive.deploy.incident import RankSeen
from derive.deploy.model import Container, GuardSeen, Served

IMAGE, LAUNCH = Digest("1" * 64), Digest("2" * 64)
GOOD_GUARD = GuardSeen(phase="steady", alive=True, says="guarding", unit="derive-probe-guard-steady.service", pid=7)

SERVED = Served(
    release="r7",
    release_digest=Digest("3" * 64),
    recipe="probe",
    shape="triangle",
    image=IMAGE,
    shape_bundle=Digest("4" * 64),
    launch_bundle=LAUNCH,
)

_RUNS = Container(
    id="c" * 64,
    name="probe",
    image=f"127.0.0.1:5170/derive/probe@{IMAGE}",
    image_ids=(str(IMAGE), "sha256:" + "5" * 64),
    entrypoint=(),
    arguments=(),
    environment=(),
    image_environment=(),
    mounts=(),
    labels={"io.derive.launch-bundle": str(LAUNCH), "io.derive.recipe": "probe"},
    host={},
    state="running",
    exit_code=None,
    oom_killed=False,
    error="",
    started="2026-11-30T17:00:00.5Z",
    finished="0001-01-01T00:00:00Z",
    pid=4242,
    restarts=0,
)


def container(**changes: Any) -> Container:
    """Return a container that runs as released, but for what is said."""
    return replace(_RUNS, **changes)


def ended(second: float, code: int = 1, **changes: Any) -> Container:
    """Return a container that ended so many seconds after 17:10."""
    fields = {"state": "exited", "pid": None, "exit_code": code, "finished": f"2026-11-30T17:10:{second:012.9f}Z"}
    return container(**{**fields, **changes})


def rank(number: int, found: Container | None, **changes: Any) -> RankSeen:
    """Return rank ``number`` on the node ``spark<number + 1>``."""
    return replace(RankSeen(node=f"spark{number + 1}", rank=number, container=found), **changes)


def kill(second: int, **changes: Any) -> GuardKill:
    """Return a guard's record of a kill so many seconds after 17:10."""
    one = GuardKill(
        file="/var/lib/derive/probe/evidence/one.json",
        phase="steady",
        reason="below-floor",
        at_s=1796058600 + second,
        floor_bytes=3 << 30,
        available_bytes=(3 << 30) - (1 << 29),
        largest=(("python3", 90 << 30),),
    )
    return replace(one, **changes)
