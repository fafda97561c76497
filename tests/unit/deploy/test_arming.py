# SPDX-License-Identifier: Apache-2.0
"""What is seen of a service's guards, by systemd's units or a supervisor's notes; how long it may take to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from derive.canonical import encode
from derive.deploy.arming import guards_in, time_to_end
from derive.deploy.model import GuardSeen
from derive.deploy.remote import Node
from derive.render.documents import launch_document
from support.launching import small_launch
from support.nodes import AtNode

STARTUP, STEADY = "derive-s-guard-startup.service", "derive-s-guard-steady.service"


def answer(**changes: Any) -> dict[str, Any]:
    """Return what a node answers that has nothing of the service, with changes."""
    says = {"startup": None, "steady": None}
    none: dict[str, Any] = {"units": {}, "running": {}, "halted": [], "supervised": None}
    return {"systemd": True, **none, "says": says, "alive": False, **changes}


def unit(load: str = "loaded", code: int = 0, status: int = 0) -> dict[str, Any]:
    return {"load": load, "exit_code": code, "exit_status": status}


def test_a_node_that_has_nothing_of_a_service_has_no_guards() -> None:
    assert guards_in("s", answer(units={STARTUP: unit("not-found"), STEADY: unit("not-found")})) == ()


def test_a_guard_that_runs_says_what_its_ready_file_says_and_one_that_ended_its_code() -> None:
    found = answer(
        units={STARTUP: unit(code=1, status=3), STEADY: unit()},
        running={"steady": 17},
        says={"startup": "guarding", "steady": "guarding"},
    )
    assert guards_in("s", found) == (
        GuardSeen(phase="startup", alive=False, says=None, unit=STARTUP, pid=None, code=3),
        GuardSeen(phase="steady", alive=True, says="guarding", unit=STEADY, pid=17),
    )


def test_a_guard_that_a_signal_ended_has_its_number_negated() -> None:
    (seen,) = guards_in("s", answer(units={STEADY: unit(code=2, status=9)}))
    assert seen.code == -9


def test_a_guard_that_is_halted_is_there_and_does_not_guard() -> None:
    (seen,) = guards_in("s", answer(units={STEADY: unit()}, running={"steady": 17}, halted=["steady"]))
    assert (seen.alive, seen.pid) == (False, 17)


def test_a_supervisor_s_notes_name_the_guards_that_ended() -> None:
    notes = {"guards": {"startup": {"pid": 1, "code": 0}, "steady": {"pid": 2, "code": None}}}
    assert guards_in("s", answer(systemd=False, supervised=notes, running={"steady": 2})) == (
        GuardSeen(phase="startup", alive=False, says=None, unit=None, pid=None, code=0),
        GuardSeen(phase="steady", alive=True, says=None, unit=None, pid=2),
    )


@pytest.mark.parametrize(
    "text", [encode(launch_document(small_launch())), b"{", None], ids=["whole", "damaged", "none"]
)
def test_what_runs_has_as_long_to_end_as_its_own_launch_files_say(
    at_node: AtNode, tmp_path: Path, text: bytes | None
) -> None:
    launch = tmp_path / "s/current"
    launch.mkdir(parents=True)
    if text is not None:
        (launch / "container.json").write_bytes(text)

    async def ask(node: Node) -> None:
        seconds = small_launch().container.stop_seconds if text not in (b"{", None) else None
        assert await time_to_end(node, str(tmp_path), "s") == seconds

    at_node(ask)
