# SPDX-License-Identifier: Apache-2.0
"""Deploys: whatever nodes remember and run is a situation with a way on; one change is one difference, none is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.canonical import encode
from derive.deploy.model import Container, Mounted, NodeState, Served, Step
from derive.deploy.observe import drift
from derive.deploy.recovery import Kind, LeaseSeen, judge
from derive.render.launch import BindMount, Launch
from support.deploying import CONFIG, container_of, served, target
from support.launching import IMAGE, small_launch

NODES = ("spark1", "spark2", "spark3")
RELEASES = tuple(served(f"probe-{digit}", digit) for digit in "123")
RUNS = container_of(target().bundle.launches[0])
KNOWN = {str(IMAGE), str(CONFIG)}

releases = st.sampled_from(RELEASES)
maybe = st.one_of(st.none(), releases)
steps = st.sampled_from([*(step.value for step in Step), "serving", "stopped", "failed", "polish"])
states = st.one_of(
    st.none(),
    st.builds(
        NodeState,
        service=st.just("probe"),
        deploy=st.sampled_from(["d1", "d2"]),
        step=steps,
        wanted=maybe,
        current=maybe,
        healthy=st.lists(releases, max_size=3, unique=True).map(tuple),
        at_s=st.integers(0, 3),
    ),
)
leases = st.one_of(
    st.none(),
    st.builds(LeaseSeen, owner=st.just("ada@spark1"), nonce=st.just("n"), alive=st.booleans(), expires_in_s=st.just(9)),
)


def running(one: Served | None, state: str) -> Container:
    labels = {} if one is None else {"io.derive.launch-bundle": str(one.launch_bundle)}
    return replace(RUNS, labels=labels, state=state)


containers = st.one_of(
    st.none(),
    st.just(()),
    st.builds(running, maybe, st.sampled_from(["running", "exited", "created", "paused"])).map(lambda one: (one,)),
)
site = st.tuples(st.tuples(states, states, states), st.tuples(containers, containers, containers), leases)


@settings(max_examples=70)
@given(site)
def test_any_mixture_of_nodes_is_a_situation_with_a_next_step(drawn: Any) -> None:
    remembered, seen, lease = drawn
    found = judge(
        dict(zip(NODES, remembered, strict=True)),
        dict(zip(NODES, seen, strict=True)),
        dict.fromkeys(NODES, lease),
        service="probe",
    )
    assert [one.node for one in found.nodes] == list(NODES)
    for text in (found.headline, found.next):
        assert text
        assert text.isprintable()
    assert encode(found.document())
    assert (found.kind is Kind.DEPLOYING) == (lease is not None and lease.alive)
    if found.served is not None:
        asked = [one for one in found.nodes if one.state != "unknown"]
        assert all(one.is_up and one.launch == found.served.launch_bundle for one in asked)
    if found.kind is Kind.SERVING:
        assert all(one.step == "serving" and one.is_up for one in found.nodes)
    if found.former is not None:
        assert all(found.former in state.healthy for state in remembered if state is not None)


words = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=("Cc", "Cs")), max_size=6)
values = words.filter(lambda word: not word.startswith("--"))
names = st.text("abcdefghij-", min_size=1, max_size=6).map(lambda text: f"--{text.strip('-') or 'x'}")
options = st.dictionaries(names, st.lists(values, max_size=2).map(tuple), max_size=4)
variables = st.dictionaries(st.text("ABCDEF", min_size=1, max_size=3), words, max_size=4)
targets = st.text("abcdef", min_size=1, max_size=3).map(lambda text: f"/{text}")
mounts = st.dictionaries(targets, st.booleans(), max_size=3)


def launch_of(said: dict[str, tuple[str, ...]], environment: dict[str, str], mounted: dict[str, bool]) -> Launch:
    return small_launch(
        arguments=("/model", *(word for name, of in said.items() for word in (name, *of))),
        environment=environment,
        mounts=tuple(
            BindMount(source=f"/on{where}", target=where, read_only=read_only) for where, read_only in mounted.items()
        ),
    )


launches = st.builds(launch_of, options, variables, mounts)


def set_one(found: Container, name: str) -> Container:
    pairs = ((key, f"{value}!" if key == name else value) for key, value in found.environment)
    return replace(found, environment=tuple(pairs))


def without(found: Container, name: str) -> Container:
    return replace(found, environment=tuple(pair for pair in found.environment if pair[0] != name))


MOUNT = Mounted(type="bind", source="/s", target="/added", read_only=True)
CHANGES: dict[str, Callable[[Container], Container]] = {
    "one more variable": lambda one: replace(one, environment=(*one.environment, ("ADDED", ""))),
    "one more option": lambda one: replace(one, arguments=(*one.arguments, "--added")),
    "one more value": lambda one: replace(one, arguments=(*one.arguments, "added")),
    "one more mount": lambda one: replace(one, mounts=(MOUNT, *one.mounts)),
    "one mount less": lambda one: replace(one, mounts=one.mounts[1:]),
    "a limit": lambda one: replace(one, host={**one.host, "ShmSize": 1}),
    "its label": lambda one: replace(one, labels={}),
    "its image": lambda one: replace(one, image_ids=(f"sha256:{'0' * 64}",)),
}


def changes_of(launch: Launch) -> list[Callable[[Container], Container]]:
    """Return what can be changed in a launch's container, one thing each."""
    found = [change for name, change in CHANGES.items() if launch.mounts or name != "one mount less"]
    return found + [partial(change, name=name) for name in launch.environment for change in (set_one, without)]


@settings(max_examples=40)
@given(launches)
def test_a_container_that_is_as_its_launch_says_has_no_difference(launch: Launch) -> None:
    assert drift(launch, container_of(launch), KNOWN) == ()


@settings(max_examples=60)
@given(launches, st.data())
def test_any_one_change_is_exactly_one_difference(launch: Launch, data: Any) -> None:
    change = data.draw(st.sampled_from(changes_of(launch)))
    (one,) = drift(launch, change(container_of(launch)), KNOWN)
    assert one.line().isprintable()
