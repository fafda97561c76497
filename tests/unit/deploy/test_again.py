# SPDX-License-Identifier: Apache-2.0
"""Every command that is proposed says again what the person said of site, branch, policy and container."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from derive.deploy.again import PLAIN, Again
from derive.deploy.consents import Consent
from derive.deploy.model import NodeState
from derive.deploy.plan import make
from derive.deploy.recovery import LeaseSeen, judge
from derive.deploy.show_plan import plan_text
from derive.deploy.status import NodeSeen, status, status_text
from support.deploying import container_of, served, serving, site_of, state, target

PROBE = target()
NODES = tuple(launch.node for launch in PROBE.bundle.launches)
ALL = Again(
    site="my sites/lab 2.toml",
    published="origin/main",
    adopt="kraken",
    consents=frozenset({Consent.EXPERIMENT, Consent.UNQUALIFIED, Consent.REPLACE}),
)
SAID = ["--site", "my sites/lab 2.toml", "--published", "origin/main"]
SITE = Again(site="lab.toml")


def test_what_was_not_given_is_not_repeated() -> None:
    assert PLAIN.command("derive status") == "derive status"
    assert PLAIN.deploy(served()) == "derive deploy probe-2 --shape triangle --apply"


def test_options_are_repeated_as_one_word_each_of_a_shell() -> None:
    assert shlex.split(ALL.deploy(served(), ("--replace",))) == [
        *["derive", "deploy", "probe-2", "--shape", "triangle", *SAID],
        *["--apply", "--experiment", "--replace", "--unqualified-shape"],
    ]
    assert ALL.command("derive status") == "derive status --site 'my sites/lab 2.toml'"


def test_consents_to_what_ends_are_not_repeated_by_themselves() -> None:
    assert Consent.REPLACE.value not in ALL.deploy(None)


@pytest.mark.parametrize(("ahead", "adopts"), [(False, ["--adopt", "kraken"]), (True, [])])
def test_the_command_of_a_plan_repeats_them(ahead: bool, adopts: list[str]) -> None:
    plan = make(PROBE, site_of(PROBE), None, (), ALL.consents, again=ALL, only_ahead=ahead)
    words = shlex.split(plan_text(plan).splitlines()[-1].partition(": ")[2])
    assert words[:5] == ["derive", "deploy", "probe-2", "--shape", "triangle"]
    assert words[5 : 5 + len(SAID + adopts) + 1] == [*SAID, *adopts, "--apply"]
    assert {"--experiment", "--unqualified-shape"} <= set(words)


ENDED = {name: (container_of(PROBE.bundle.launches[0], state="exited", exit_code=1),) for name in NODES}
BY_HAND = {name: (container_of(PROBE.bundle.launches[0], labels={}),) for name in NODES}
LEASE = LeaseSeen(owner="ada@spark1", nonce="n", alive=True, expires_in_s=40)
STATES: dict[str, NodeState | None] = dict.fromkeys(
    NODES, state(wanted=PROBE.served, current=PROBE.served, healthy=(PROBE.served, served("probe-1", "1")))
)


@pytest.mark.parametrize(
    ("states", "containers", "lease"),
    [
        (dict.fromkeys(NODES), dict.fromkeys(NODES, ()), None),
        (dict.fromkeys(NODES), dict.fromkeys(NODES), None),
        (dict.fromkeys(NODES), BY_HAND, None),
        (dict.fromkeys(NODES), serving(PROBE), None),
        (STATES, ENDED, None),
        (STATES, serving(PROBE), LEASE),
        ({name: replace(one, step="start") for name, one in STATES.items() if one}, ENDED, None),
        ({name: replace(one, step="failed") for name, one in STATES.items() if one}, ENDED, None),
        ({name: replace(one, step="stopped") for name, one in STATES.items() if one}, ENDED, None),
    ],
)
def test_every_command_that_is_next_in_a_situation_names_the_site(
    states: object, containers: object, lease: object
) -> None:
    told = judge(states, containers, dict.fromkeys(NODES, lease), service="probe", again=SITE).next  # type: ignore[arg-type]
    assert told.count("derive ") == told.count("--site lab.toml") > 0


def test_what_is_next_where_something_is_amiss_names_the_site() -> None:
    seen = [
        NodeSeen(node=name, rank=rank, state=STATES[name], containers=serving(PROBE)[name], damaged="no link")
        for rank, name in enumerate(NODES)
    ]
    last = status_text(status("probe", seen, again=SITE)).splitlines()[-1]
    assert "derive deploy probe-2 --shape triangle --site lab.toml --apply --replace" in last
