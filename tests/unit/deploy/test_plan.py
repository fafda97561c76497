# SPDX-License-Identifier: Apache-2.0
"""A plan says whole what a deploy would do, from what was seen and what was before, and what stands against it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from derive.canonical import Digest, encode
from derive.deploy.consents import Consent, Foreign, Qualified, needed, running, shape_running
from derive.deploy.history import Deployed, StepTook
from derive.deploy.model import Step, Target
from derive.deploy.plan import Plan, Seen, make
from derive.deploy.preflight import judge
from derive.deploy.recovery import judge as judge_situation
from derive.deploy.recovery_known import remembered
from derive.deploy.show_plan import plan_text
from derive.errors import Problem
from support.deploying import NOW_S, container_of, machines, served, serving, site_of, state, target
from support.golden import check_golden

PROBE = target()
MODEL = target("ds41f", "tp3-triangle", "ds41f-3")
OLD = served("probe-1", "1")
NODES = tuple(launch.node for launch in PROBE.bundle.launches)
GIVEN = frozenset({Consent.REPLACE})


def running_old(of: Target) -> dict[str, Any]:
    """Return containers of the release before, on all nodes."""
    return {
        launch.node: (
            container_of(launch, labels={**launch.labels, "io.derive.launch-bundle": str(OLD.launch_bundle)}),
        )
        for launch in of.bundle.launches
    }


def seen_of(of: Target, **changes: Any) -> Seen:
    """Return what is seen while the release before serves, with changes."""
    before = state(wanted=OLD, current=OLD, healthy=(OLD,))
    whole: dict[str, Any] = {
        "machines": machines(of),
        "containers": running_old(of),
        "states": dict.fromkeys(NODES, before),
        "moves": {NODES[0]: 12_300_000, NODES[1]: 12_300_000, NODES[2]: 0},
        "seen_s": NOW_S,
        **changes,
    }
    situation = judge_situation(whole["states"], whole["containers"], service=of.service)
    return Seen(situation=situation, **whole)


def past(**changes: Any) -> Deployed:
    steps = {Step.FACTS: 1, Step.DISTRIBUTE: 8, Step.START: 3, Step.READY: 22, Step.STEADY: 1}
    return Deployed(
        served=replace(OLD, **changes),
        service="probe",
        site=Digest("f" * 64),
        nodes=dict.fromkeys(NODES, "ab" * 32),
        steps=tuple(StepTook(step=step, duration_ns=seconds * 10**9) for step, seconds in steps.items()),
        outcome="done",
        why=None,
        former=None,
        by="Ada",
        at_s=NOW_S,
        moved_bytes=12_300_000,
    )


def planned(
    of: Target = PROBE,
    seen: Seen | None = None,
    *,
    given: frozenset[Consent] = GIVEN,
    qualified: Qualified | None = None,
    **more: Any,
) -> Plan:
    """Make a plan as a deploy does."""
    found = seen_of(of) if seen is None else seen
    known = {name: remembered(one) for name, one in found.states.items()}
    stops = running(of, found.containers, known)
    shape = shape_running(of, stops, found.containers)
    return make(
        of,
        site_of(of),
        found,
        more.pop("history", (past(), past())),
        given,
        needed=needed(of, stops, shape, qualified or Qualified(promoted=True)),
        findings=judge(of, site_of(of), found.machines, found.containers, given, known=known, moves=found.moves),
        **more,
    )


def test_a_plan_against_which_nothing_stands_may_be_applied() -> None:
    plan = planned()
    assert plan.may_apply
    assert plan.problems() == ()
    assert (plan.move_bytes, plan.former, plan.is_running) == (24_600_000, OLD, False)
    assert plan.start_order == (NODES[1], NODES[2], NODES[0])
    assert [one.stops for one in plan.nodes] == [(OLD,)] * 3


def test_time_is_that_of_deploys_before_with_the_bytes_to_move() -> None:
    assert planned().expected[Step.DISTRIBUTE] == 16
    assert planned(history=()).expected == {}


def test_a_consent_that_is_missing_stands_against_it() -> None:
    (one,) = planned(given=frozenset()).problems()
    assert one.where == "--replace"


def test_refusals_errors_and_missing_consents_stand_against_it_in_that_order() -> None:
    found = seen_of(PROBE, machines=machines(PROBE, sudo=False))
    refusal = Problem(where="records/releases/", message="not promoted")
    problems = planned(seen=found, given=frozenset(), refusals=[refusal]).problems()
    assert [one.where for one in problems] == ["records/releases/", *NODES, "--replace"]


def test_a_warning_stands_against_nothing() -> None:
    plan = planned(seen=seen_of(PROBE, machines=machines(PROBE, clock_ns=0)))
    assert len(plan.findings) == 3
    assert plan.may_apply


def test_what_is_to_run_and_runs_already_is_known() -> None:
    now = PROBE.served
    states = dict.fromkeys(NODES, state(wanted=now, current=now, healthy=(now, OLD)))
    plan = planned(seen=seen_of(PROBE, containers=serving(PROBE), states=states))
    assert plan.is_running
    assert plan_text(plan).splitlines()[-1].startswith("this runs already; to start it again: derive deploy probe-2 ")
    unagreed = plan_text(replace(plan, given=frozenset()))
    assert unagreed.splitlines()[-1] == "this runs already; as it is, this plan cannot be applied"


def test_what_an_operator_stopped_is_not_gone_back_to() -> None:
    stopped = state("stopped", wanted=OLD, current=OLD, healthy=(OLD,))
    plan = planned(seen=seen_of(PROBE, containers=dict.fromkeys(NODES, ()), states=dict.fromkeys(NODES, stopped)))
    assert plan.former is None
    assert "if it fails  the service is stopped, as it is now: nothing runs that it could go back to" in plan_text(plan)


def test_bytes_that_are_unknown_of_one_node_are_unknown_in_all() -> None:
    moves = {NODES[0]: 1, NODES[1]: None, NODES[2]: 1}
    assert planned(seen=seen_of(PROBE, moves=moves)).move_bytes is None


@pytest.mark.parametrize("seen", [None, "old"])
def test_a_plan_is_the_body_of_a_record(seen: str | None) -> None:
    plan = planned() if seen else make(PROBE, site_of(PROBE), None, (), ())
    assert encode(plan.document())


def test_a_foreign_container_is_named_in_the_record() -> None:
    theirs = {NODES[0]: (container_of(PROBE.bundle.launches[0], labels={}),)}
    plan = planned(seen=seen_of(PROBE, containers=theirs, states=dict.fromkeys(NODES)))
    assert isinstance(plan.nodes[0].stops[0], Foreign)
    document: Any = plan.document()
    assert document["nodes"][0]["stops"][0]["container"] == "ab" * 32


def check_text(name: str, plan: Plan) -> None:
    """Hold a plan's text against a golden file, in which digests that move with other files stand by name."""
    text = plan_text(plan)
    served = plan.served
    named = {"shape bundle": served.shape_bundle, "launch bundle": served.launch_bundle, "site": plan.site_digest}
    for what, digest in named.items():
        text = text.replace(digest.hex, f"<{what}>")
    check_golden(f"deploy/{name}.txt", text)


def test_the_text_of_a_plan_that_may_be_applied() -> None:
    check_text("plan-ready", planned())


def test_the_text_of_a_plan_that_no_node_was_asked_for() -> None:
    check_text("plan-unasked", make(PROBE, site_of(PROBE), None, (), (), findings=judge(PROBE, site_of(PROBE), {}, {})))


def test_the_text_of_a_plan_against_which_much_stands() -> None:
    theirs = container_of(MODEL.bundle.launches[1], name="kraken", labels={})
    theirs = replace(theirs, arguments=("serve", "--tensor-parallel-size", "2", "--port", "8000"))
    found = machines(MODEL, engine=None)
    found[NODES[0]] = replace(machines(MODEL)[NODES[0]], driver="570.1", clock_ns=(NOW_S + 90) * 10**9)
    seen = seen_of(
        MODEL,
        machines=found,
        containers={NODES[0]: (), NODES[1]: (theirs,), NODES[2]: ()},
        states=dict.fromkeys(NODES),
        moves=dict.fromkeys(NODES),
    )
    qualified = Qualified(promoted=True, waived=("no third machine yet",))
    refusal = Problem(where="records/releases/0004-ds41f-3.json", message="tp3-triangle of ds41f-3 is not promoted")
    plan = planned(MODEL, seen, given=frozenset({Consent.UNQUALIFIED}), qualified=qualified, refusals=[refusal])
    plan = replace(plan, aside=("kraken",))
    check_text("plan-refused", plan)


def test_a_narrow_terminal_gets_whole_words() -> None:
    text = plan_text(planned(), width=72)
    long = [line for line in text.splitlines() if len(line) > 72]
    # Digests are not broken: whoever copies one wants it whole.
    assert all("sha256:" in line for line in long)
