# SPDX-License-Identifier: Apache-2.0
"""Effects on units before a real systemd: installed, seen, removed, and none of a running service is taken away."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from derive.deploy.programs import COMMAND, payload, read_answer
from support.node_programs import PATH, lease
from support.user_manager import Manager, user_manager

pytestmark = pytest.mark.sandbox

SLEEPS = b"[Service]\nType=exec\nExecStart=sleep 60\n"
FAILS = b"[Service]\nType=oneshot\nExecStart=false\n"


@dataclass(frozen=True, slots=True)
class Host:
    manager: Manager
    units: Path
    fence: dict[str, Any]

    def do(self, effect: str, **given: Any) -> Any:
        """Do an effect beside the manager; a refusal is returned as one."""
        call = {"manager": "user", "into": str(self.units), **self.fence, **given}
        command = [*self.manager.inside, "env", f"PATH={PATH}", *COMMAND]
        ran = subprocess.run(command, input=payload(effect, call, held=False), capture_output=True, check=False)
        answer = read_answer(ran.stdout)
        assert answer is not None, ran.stderr.decode()
        return answer.get("done", answer.get("refused"))

    def install(self, units: dict[str, bytes], *remove: str) -> Any:
        return self.do(
            "units-install",
            units={name: base64.b64encode(data).decode() for name, data in units.items()},
            remove=list(remove),
        )

    def seen(self, *names: str) -> list[tuple[str, str, str]]:
        return [(one["load"], one["active"], one["result"]) for one in self.do("unit-states", names=names).values()]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    base = tmp_path_factory.mktemp("host")
    (base / "units").mkdir()
    (base / "bin").mkdir()
    fence = lease(base / "site")
    with user_manager(base / "units", base / "bin") as manager:
        yield Host(manager, base / "units", fence)


def test_units_are_installed_once_seen_and_removed_when_they_do_not_run(host: Host) -> None:
    units = {"derive-a.service": SLEEPS, "derive-b.service": FAILS, "derive-a.slice": b"[Unit]\n"}
    assert sorted(host.install(units)["changed"]) == sorted(units)
    assert host.install(units)["changed"] == []
    assert host.manager.systemctl("start", "derive-a.service").returncode == 0
    assert host.manager.systemctl("start", "derive-b.service").returncode != 0
    assert host.seen("derive-a.service", "derive-none.service", "derive-b.service") == [
        ("loaded", "active", "success"),
        ("not-found", "inactive", "success"),
        ("loaded", "failed", "exit-code"),
    ]
    shown = host.do("unit-states", names=["derive-a.service"])["derive-a.service"]
    assert shown["pid"] > 0
    assert shown["since_ns"] > 0

    refused = host.do("units-remove", names=sorted(units))
    assert (refused["kind"], refused["detail"][0]) == ("busy", "derive-a.service is active")
    assert sorted(path.name for path in host.units.iterdir()) == sorted(units)
    host.manager.systemctl("stop", "derive-a.service", "derive-a.slice")
    assert sorted(host.do("units-remove", names=sorted(units))["changed"]) == sorted(units)
    assert host.do("units-remove", names=sorted(units))["changed"] == []
    assert host.seen("derive-a.service", "derive-b.service") == 2 * [("not-found", "inactive", "success")]


def test_what_a_former_release_had_goes_and_a_change_is_read(host: Host) -> None:
    host.install({"derive-c.service": FAILS, "derive-c-guard-startup.service": SLEEPS})
    changed = host.install(
        {"derive-c.service": SLEEPS}, "derive-c-guard-startup.service", "derive-c-guard-steady.service"
    )
    assert changed["changed"] == ["derive-c.service", "derive-c-guard-startup.service"]
    assert host.manager.systemctl("start", "derive-c.service").returncode == 0
    assert host.seen("derive-c-guard-startup.service")[0][0] == "not-found"


def test_names_that_are_not_derives_and_masked_units_are_left_alone(host: Host) -> None:
    for odd in ("ssh.service", "../derive-a.service", "derive-a.conf", "derive-a/b.service"):
        assert host.install({odd: SLEEPS})["kind"] == "wrong"
        assert host.do("units-remove", names=[odd])["kind"] == "wrong"
    masked = host.units / "derive-d.service"
    masked.symlink_to("/dev/null")
    assert host.install({"derive-d.service": SLEEPS})["hint"] == "systemctl unmask derive-d.service"
    masked.unlink()
