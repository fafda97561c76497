# SPDX-License-Identifier: Apache-2.0
"""Containers that no deploy started stand aside and come back; FAKE is the engine, and that nothing has a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from derive.deploy import arming, engines, room
from derive.deploy.consents import restart_policy
from derive.deploy.former import Standing
from derive.deploy.lease import Fence
from derive.deploy.model import Container, Stood
from derive.deploy.room import passing, put_aside, put_back
from support.deploying import container_of, target

LAUNCH = target().bundle.launches[0]
ALWAYS = {"RestartPolicy": {"Name": "always", "MaximumRetryCount": 0}}
OURS = LAUNCH.labels


class Cut(Exception):
    """Stands for a process that is killed."""


class FakeEngine:
    """The engine of one node, with its containers by name; ``asked`` is what was done to it, ``cut`` before what."""

    name = "spark1"

    def __init__(self, *containers: Container) -> None:
        self.found = {one.name: one for one in containers}
        self.asked: list[str] = []
        self.cut = ""

    async def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Answer, and do it."""
        if function is engines.containers:
            return [self.found[name] for name in arguments[0] if name in self.found]
        if function.__name__ == self.cut:
            raise Cut
        self.asked.append(" ".join(map(str, (function.__name__, *arguments))))
        name = arguments[0]
        if function is engines.rename:
            self.found[arguments[1]] = replace(self.found.pop(name), name=arguments[1])
        elif function is engines.set_restart:
            word, _, count = arguments[1].partition(":")
            policy = {"Name": word, "MaximumRetryCount": int(count or 0)}
            self.found[name] = replace(self.found[name], host={**self.found[name].host, "RestartPolicy": policy})
        else:
            state = {engines.start: "running", engines.stop: "exited"}[function]
            self.found[name] = replace(self.found[name], state=state)
        return True

    @property
    def stands(self) -> dict[str, tuple[str, str]]:
        """Return each container's state and restart policy."""
        return {name: (one.state, restart_policy(one)) for name, one in self.found.items()}


class FakeWork:
    """A deploy under way on nodes that nobody else has."""

    service, folder = "probe", "/srv/derive"
    held = type("Held", (), {"fence": Fence(folder="/srv/derive", nonce="n")})


@pytest.fixture(autouse=True)
def _no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr(room, "renew_lease", nothing)


def theirs(name: str = "notebook", **changes: Any) -> Container:
    """Return a container that no deploy started."""
    return container_of(LAUNCH, **{"name": name, "labels": {}, "host": {}, **changes})


def standing(name: str = "notebook", **changes: Any) -> Standing:
    """Return what is remembered of it."""
    known: dict[str, Any] = {"kind": Stood.CONTAINER, "container": "ab", "running": True, "restart": "no", **changes}
    return Standing(node="spark1", name=name, **known)


def done(function: Callable[..., Awaitable[str]], engine: FakeEngine, one: Standing) -> str:
    async def run() -> str:
        return await function(FakeWork(), engine, one)

    return asyncio.run(run())


def test_a_container_is_stopped_and_renamed_and_comes_back() -> None:
    engine = FakeEngine(theirs())
    assert done(put_aside, engine, standing()) == "notebook stopped, and kept as notebook-before-derive"
    assert engine.stands == {"notebook-before-derive": ("exited", "no")}
    assert done(put_back, engine, standing()) == "notebook runs again"
    assert engine.stands == {"notebook": ("running", "no")}


@pytest.mark.parametrize("policy", ["always", "unless-stopped", "on-failure:3"])
def test_an_engine_does_not_start_what_stands_aside_and_does_so_again_once_it_is_back(policy: str) -> None:
    word, _, count = policy.partition(":")
    engine = FakeEngine(theirs(host={"RestartPolicy": {"Name": word, "MaximumRetryCount": int(count or 0)}}))
    done(put_aside, engine, standing(restart=policy))
    # The engine may end while it stops the container, and would start it when it is up again.
    assert engine.asked[:2] == ["set_restart notebook no", "stop notebook 60"]
    assert engine.stands == {"notebook-before-derive": ("exited", "no")}
    done(put_back, engine, standing(restart=policy))
    assert engine.stands == {"notebook": ("running", policy)}


def test_what_did_not_run_has_its_name_and_its_policy_again_and_is_not_started() -> None:
    engine = FakeEngine(theirs(state="exited", host=ALWAYS))
    one = standing(running=False, restart="always")
    done(put_aside, engine, one)
    assert done(put_back, engine, one) == "notebook has its name again"
    assert engine.stands == {"notebook": ("exited", "always")}


@pytest.mark.parametrize("step", ["set_restart", "stop", "rename"])
def test_what_was_cut_off_is_done_to_its_end_by_the_next_and_undone_by_the_way_back(step: str) -> None:
    one = standing(restart="always")
    for function, after in (
        (put_aside, {"notebook-before-derive": ("exited", "no")}),
        (put_back, {"notebook": ("running", "always")}),
    ):
        engine = FakeEngine(theirs(host=ALWAYS))
        engine.cut = step
        with pytest.raises(Cut):
            done(put_aside, engine, one)
        engine.cut = ""
        done(function, engine, one)
        assert engine.stands == after


def test_what_is_asked_for_again_is_done_once() -> None:
    engine = FakeEngine(theirs(host=ALWAYS))
    one = standing(restart="always")
    for function, after in (
        (put_aside, {"notebook-before-derive": ("exited", "no")}),
        (put_back, {"notebook": ("running", "always")}),
    ):
        done(function, engine, one)
        done(function, engine, one)
        assert engine.stands == after


def test_what_has_the_name_since_is_the_deploys_own_and_is_left_alone() -> None:
    ours = container_of(LAUNCH, labels=OURS)
    engine = FakeEngine(ours, theirs("probe-before-derive", host=ALWAYS))
    assert done(put_aside, engine, standing("probe")) == "probe is kept as probe-before-derive"
    assert engine.stands == {"probe": ("running", "no"), "probe-before-derive": ("exited", "no")}


def test_what_stood_aside_before_is_stopped_under_its_name_and_stays_stopped() -> None:
    engine = FakeEngine(theirs("probe-before-derive", host=ALWAYS))
    one = standing("probe-before-derive", running=False, restart="always")
    assert one.was_aside
    done(put_aside, engine, one)
    assert done(put_back, engine, one) == "probe-before-derive stays stopped"
    assert engine.stands == {"probe-before-derive": ("exited", "no")}


def test_a_service_of_another_name_is_stopped_by_its_units_and_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []

    async def stop(_node: object, name: str, **_: object) -> None:
        stopped.append(name)

    monkeypatch.setattr(arming, "stop", stop)
    engine = FakeEngine(container_of(LAUNCH, name="other"))
    assert done(put_aside, engine, standing("other", kind=Stood.SERVICE)) == "other stopped"
    assert (stopped, engine.asked) == (["other"], [])


UNIT = b"# /run/systemd/transient/a-memguard.service\n[Service]\nExecStart=/bin/sleep 9\n"
PATH = "/run/systemd/system/a-memguard.service"


def test_a_guard_that_is_brought_back_removes_its_unit_once_it_has_ended_and_says_so_once() -> None:
    text = passing(UNIT, PATH)
    assert text == UNIT + b"[Service]\nExecStopPost=-+/bin/rm -f /run/systemd/system/a-memguard.service\n"
    assert passing(text, PATH) == text


@pytest.mark.parametrize(("restart", "is_kept"), [(b"no", False), (b"always", True), (b" on-failure", True)])
def test_a_guard_that_systemd_starts_again_keeps_its_unit(restart: bytes, is_kept: bool) -> None:
    text = UNIT + b"Restart=" + restart + b"\n"
    assert (passing(text, PATH) == text) is is_kept
