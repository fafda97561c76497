# SPDX-License-Identifier: Apache-2.0
"""How a plan is answered: what stands against it with one next step for each, and the exit code."""

from __future__ import annotations

import argparse
import json

import pytest

from derive.cli.deploying import show
from derive.deploy.node_errors import NodeUnreachable
from derive.deploy.plan import Plan, make
from derive.deploy.preflight import judge
from derive.deploy.preflight_finding import Finding
from derive.errors import Problem
from support.deploying import site_of, target

PROBE = target()
NODES = tuple(launch.node for launch in PROBE.bundle.launches)
REFUSAL = Problem(where="release:probe-2", message="the store does not hold its image", hint="derive image probe")
UNKNOWN = judge(PROBE, site_of(PROBE), {}, {})
LOST = [NodeUnreachable("no route to host", node=name) for name in NODES]


def plan(refusals: tuple[Problem, ...] = (), findings: tuple[Finding, ...] = ()) -> Plan:
    return make(PROBE, site_of(PROBE), None, (), (), refusals=refusals, findings=findings)


@pytest.mark.parametrize("as_json", [False, True])
def test_each_thing_that_stands_against_a_plan_is_told_with_its_next_step(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(argparse.Namespace(json=as_json), plan((REFUSAL,), UNKNOWN)) == 1
    said = capsys.readouterr()
    assert "hint: derive image probe" in said.err
    assert said.err.count("hint: see that it is up and SSH reaches it") == len(NODES)
    assert "hint:" not in said.out
    assert (json.loads(said.out)["kind"] == "deploy-plan") if as_json else ("against it: 4 things" in said.out)


def test_a_plan_against_which_nothing_stands_has_nothing_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(argparse.Namespace(json=False), plan()) == 0
    assert capsys.readouterr().err == ""


def test_where_nodes_cannot_be_asked_and_nothing_else_is_known_the_exit_code_is_3(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert show(argparse.Namespace(json=False), plan(findings=UNKNOWN), LOST) == 3
    assert show(argparse.Namespace(json=False), plan(), LOST) == 3
    assert "no route to host" in capsys.readouterr().err


def test_where_more_is_known_to_stand_against_it_the_exit_code_is_1() -> None:
    assert show(argparse.Namespace(json=False), plan((REFUSAL,), UNKNOWN), LOST) == 1
    assert show(argparse.Namespace(json=False), plan(findings=UNKNOWN)) == 1
