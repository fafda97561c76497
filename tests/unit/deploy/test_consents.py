# SPDX-License-Identifier: Apache-2.0
"""What an operator has to agree to: each thing by its own option, with the reason, and nothing that is not needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from derive.deploy.consents import (
    Consent,
    Foreign,
    Qualified,
    ShapeFacts,
    missing,
    needed,
    restart_policy,
    running,
    running_text,
    shape_facts,
    shape_running,
)
from derive.deploy.model import Container, Served, Target
from support.deploying import container_of, served, serving, target

PROBE = target()
MODEL = target("ds41f", "tp3-triangle")
NODES = tuple(launch.node for launch in PROBE.bundle.launches)
GOOD = Qualified(promoted=True)
NOBODY: Mapping[str, Any] = dict.fromkeys(NODES, ())


def found(of: Target, containers: Mapping[str, Sequence[Container]], *known: Served) -> dict[str, Any]:
    return running(of, containers, dict.fromkeys(NODES, known or (of.served,)))


def one_more(**changes: Any) -> dict[str, tuple[Container, ...]]:
    """Return a container of another name on the second node."""
    launch = replace(MODEL.bundle.launches[1], name="kraken")
    return {NODES[1]: (container_of(launch, **{"labels": {}, **changes}),)}


def test_nothing_runs_and_nothing_is_needed() -> None:
    assert needed(PROBE, NOBODY, None, GOOD) == ()


def test_a_release_that_serves_is_replaced_by_consent() -> None:
    (one,) = needed(PROBE, found(PROBE, serving(PROBE)), None, GOOD)
    assert one.consent is Consent.REPLACE
    assert one.because == (f"probe-2 (triangle) runs on {', '.join(NODES)}",)


def test_what_ends_differently_on_nodes_is_told_apart() -> None:
    seen = {**serving(PROBE), NODES[1]: (container_of(PROBE.bundle.launches[1], labels={}),)}
    (one,) = needed(PROBE, found(PROBE, seen), None, GOOD)
    assert one.because == (
        f"probe-2 (triangle) runs on {NODES[0]}, {NODES[2]}",
        f"the container probe, which no deploy started, has the name probe on {NODES[1]}",
    )


def test_a_container_of_ours_that_has_ended_is_in_nobodys_way() -> None:
    ended = {name: (replace(one, state="exited"),) for name, (one,) in serving(PROBE).items()}
    assert set(found(PROBE, ended).values()) == {()}


def test_a_container_of_the_name_that_no_deploy_started_is_in_the_way_also_when_it_has_ended() -> None:
    theirs = container_of(PROBE.bundle.launches[0], labels={}, state="exited")
    (one,) = found(PROBE, {NODES[0]: (theirs,)})[NODES[0]]
    assert isinstance(one, Foreign)


def test_a_launch_that_its_node_does_not_remember_is_named_by_its_digest() -> None:
    (one,) = found(PROBE, serving(PROBE), served("other", "9"))[NODES[0]]
    assert isinstance(one, Foreign)
    assert one.labelled
    assert running_text(one) == (
        f"the container probe runs {PROBE.bundle.launch.short}, which its node does not remember"
    )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "has the port 8000"),
        ({"arguments": ("--port=8000",)}, "has the port 8000"),
        ({"arguments": ("--port", "8001")}, "has the GPUs"),
        ({"arguments": (), "host": {"PortBindings": {"80/tcp": [{"HostPort": "8000"}]}}}, "has the port 8000"),
        (
            {"arguments": (), "host": {"CgroupParent": "derive-ds41f.slice"}},
            "runs in derive-ds41f.slice, at which the service's guard looks",
        ),
    ],
)
def test_a_container_of_another_name_is_in_the_way_by_what_it_has(changes: Mapping[str, Any], why: str) -> None:
    (one,) = found(MODEL, one_more(**changes))[NODES[1]]
    assert isinstance(one, Foreign)
    assert (one.container.name, one.why) == ("kraken", why)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "exited"},
        {"name": "kraken-before-derive", "state": "exited"},
        {"arguments": ("--port", "8001"), "host": {}},
        {"arguments": ("--lines", "8000"), "host": {}},
    ],
)
def test_other_containers_are_in_nobodys_way(changes: Mapping[str, Any]) -> None:
    assert found(MODEL, one_more(**changes))[NODES[1]] == ()


def test_the_gpus_are_in_the_way_only_of_what_wants_them() -> None:
    assert found(PROBE, one_more(arguments=()))[NODES[1]] == ()


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (("serve", "--tensor-parallel-size", "3"), {"tensor_parallel": "3"}),
        (("--nnodes", "4"), {"nodes": "4"}),
        (("-tp", "3", "--max-model-len=4096"), {"tensor_parallel": "3", "context": "4096"}),
        (("--max_model_len", "4096", "--kv-cache-memory-bytes", "7"), {"context": "4096", "kv": "7"}),
        (("--max-model-len",), {"context": ""}),
        ((), {}),
    ],
)
def test_a_shape_is_read_off_an_engines_arguments(arguments: tuple[str, ...], facts: Mapping[str, str]) -> None:
    assert shape_facts(arguments, 3) == ShapeFacts(**{"nodes": "3", **facts})


def test_the_running_shape_is_that_of_what_ends_whatever_its_name() -> None:
    seen = one_more()
    shape = shape_running(MODEL, found(MODEL, seen), seen)
    assert shape == ShapeFacts(nodes="3", tensor_parallel="3", context="1048576", kv="3758096384")
    assert shape_running(MODEL, NOBODY, {}) is None
    assert shape_running(MODEL, found(MODEL, serving(MODEL)), serving(MODEL)) == shape


def test_how_many_nodes_run_counts_only_of_what_no_deploy_started() -> None:
    ours = {NODES[0]: serving(PROBE)[NODES[0]]}
    theirs = {NODES[0]: (container_of(PROBE.bundle.launches[0], labels={}),)}
    assert shape_running(PROBE, found(PROBE, ours), ours) == ShapeFacts()
    assert shape_running(PROBE, found(PROBE, theirs), theirs) == ShapeFacts(nodes="1")


def test_everything_in_the_way_on_a_node_is_told_the_services_own_first() -> None:
    extra = container_of(PROBE.bundle.launches[1], name="extra", labels={})
    seen = {**serving(PROBE), NODES[1]: (extra, *serving(PROBE)[NODES[1]])}
    own, other = found(PROBE, seen)[NODES[1]]
    assert own == PROBE.served
    assert isinstance(other, Foreign)
    (one,) = needed(PROBE, found(PROBE, seen), None, GOOD)
    assert len(one.because) == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"nodes": "4"}, "nodes: 4 run, 3 are to"),
        ({"tensor_parallel": "4"}, "tensor parallelism: 4 now, then 3"),
        ({"context": "262144"}, "context: 262144 now, then 1048576"),
        ({"kv": None}, "KV cache: not said now, then 3758096384"),
    ],
)
def test_each_thing_that_makes_another_shape_needs_consent(changes: Mapping[str, Any], reason: str) -> None:
    same = ShapeFacts(nodes="3", tensor_parallel="3", context="1048576", kv="3758096384")
    assert needed(MODEL, NOBODY, same, GOOD) == ()
    (one,) = needed(MODEL, NOBODY, replace(same, **changes), GOOD)
    assert (one.consent, one.because) == (Consent.CHANGE_SHAPE, (reason,))


def test_a_waiver_of_the_promotion_needs_consent_with_its_reason() -> None:
    (one,) = needed(PROBE, NOBODY, None, Qualified(promoted=True, waived=("no third machine",)))
    assert one.consent is Consent.UNQUALIFIED
    assert one.because == ("triangle of probe-2 is promoted with a waiver: no third machine",)


def test_an_experiment_with_what_is_not_promoted_needs_consent() -> None:
    (one,) = needed(PROBE, NOBODY, None, Qualified(promoted=False), experiment=True)
    assert (one.consent, one.because) == (Consent.UNQUALIFIED, ("triangle of probe-2 is not promoted",))
    assert needed(PROBE, NOBODY, None, GOOD, experiment=True) == ()


def test_what_was_not_agreed_to_is_a_problem_with_its_option() -> None:
    wanted = needed(PROBE, found(PROBE, serving(PROBE)), ShapeFacts(nodes="4"), GOOD)
    assert [one.consent for one in wanted] == [Consent.REPLACE, Consent.CHANGE_SHAPE]
    (one,) = missing(wanted, {Consent.REPLACE})
    assert one.problem().hint == "where that is meant: --change-shape"
    assert missing(wanted, set(Consent)) == ()


def test_what_was_moved_aside_and_runs_again_is_in_the_way_and_its_shape_is_nobodys() -> None:
    there = one_more(name="kraken-before-derive", host={}, arguments=("--max-model-len", "9"))
    ones = found(MODEL, there)
    (one,) = ones[NODES[1]]
    assert running_text(one) == (
        "the container kraken-before-derive, which no deploy started, was moved aside, and runs again without a guard"
    )
    assert shape_running(MODEL, ones, there) is None


@pytest.mark.parametrize(
    ("host", "policy"),
    [
        ({}, "no"),
        ({"RestartPolicy": {"Name": "", "MaximumRetryCount": 0}}, "no"),
        ({"RestartPolicy": {"Name": "always", "MaximumRetryCount": 0}}, "always"),
        ({"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3}}, "on-failure:3"),
    ],
)
def test_a_restart_policy_is_one_word(host: Mapping[str, Any], policy: str) -> None:
    assert restart_policy(container_of(PROBE.bundle.launches[0], host=host)) == policy
