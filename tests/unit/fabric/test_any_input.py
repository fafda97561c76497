# SPDX-License-Identifier: Apache-2.0
"""Whatever stands in a site file, a shape or facts of machines: it is taken, or refused with places; never a fault."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.errors import InputErrors
from derive.fabric.environment import node_environment
from derive.fabric.facts import KIND, read_facts
from derive.fabric.load import load_site
from derive.fabric.pairing import pair
from derive.fabric.rules import problems
from derive.fabric.site_text import new_site, refuse_odd, site_text
from derive.records.model import record
from derive.toml_text import toml_text
from support.fabrics import example_site
from support.network_facts import facts_of_site
from support.shapes_of_fabric import fabric, on_tilelang, over, shape

T = TypeVar("T")

WHOLE = """\
format = 1
name = "lab"
cabling = "triangle"
ssh-user = "operator"
home = "/home/operator"
interface = "enP7s7"
gid-index = 3
shapes = { ds41f = "tp3-triangle" }
nodes = [
    { name = "a", address = "192.0.2.1", ssh-host = "a.example", gid-index = 3 },
    { name = "b", address = "192.0.2.2", interface = "eno1" },
    { name = "c", address = "192.0.2.3", traffic-class = 1 },
]
cables = [
    { between = ["a", "b"], ports = [0, 1], paths = [
        { subnet = "10.0.1.0/24", addresses = ["10.0.1.1", "10.0.1.2"] },
        { devices = ["d1", "d2"], interfaces = ["i1", "i2"] },
    ] },
    { between = ["c", "b"] },
    { between = ["a", "c"] },
]
"""

VALUES = st.one_of(
    st.integers(-1, 300),
    st.booleans(),
    st.sampled_from(
        [
            "",
            "a",
            "b",
            "z",
            "10.0.1.1",
            "169.254.1.1",
            "10.12.1.0/24",
            "10.0.1.0/25",
            "0.0.0.0/0",
            "/x",
            "{home}/y",
            "ring4",
        ]
    ),
    st.just([]),
    st.just({}),
    st.just(["a", "a"]),
    st.just([0, 0]),
    st.just([{}, {}]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [one for key, item in items for one in [(*path, key), *places(item, (*path, key))]]


def changed(table: Any, random: Random, values: list[Any]) -> Any:
    table = deepcopy(table)
    for value in values:
        path = random.choice(places(table))
        target = table
        for key in path[:-1]:
            target = target[key]
        if random.random() < 0.3:
            del target[path[-1]]
        else:
            target[path[-1]] = deepcopy(value)
        if not places(table):
            break
    return table


def tried(read: Callable[[], T]) -> T | InputErrors:
    try:
        return read()
    except InputErrors as error:
        return error


@given(st.randoms(use_true_random=False), st.lists(VALUES, min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_a_site_file_is_a_site_or_is_refused_with_places(random: Random, values: list[Any]) -> None:
    text = toml_text(changed(tomllib.loads(WHOLE), random, values))
    found = tried(lambda: load_site(text.encode(), "site.toml"))
    if isinstance(found, InputErrors):
        assert all(one.where.startswith("site.toml: ") and one.message for one in found.problems())
    else:
        assert load_site(text.encode(), "site.toml") == found
        for rank in range(3):
            assert len({there.rank for _, _, _, there in found.paths_of(rank)}) == 2


ODD = st.lists(
    st.sampled_from(["a", "/", "-", "\\", '"', "\n", "\t", "\\u0041", "#", "é", "\x7f", "\udcff"]), max_size=4
)


def or_odd(*usual: str) -> st.SearchStrategy[str]:
    return st.sampled_from(usual * 3) | st.builds(lambda one, odd: one + "".join(odd), st.sampled_from(usual), ODD)


@given(
    or_odd("lab"),
    or_odd("operator", "op"),
    or_odd("/home/operator", "/root"),
    or_odd("enP7s7"),
    st.tuples(or_odd("a"), or_odd("b", "a"), or_odd("c")),
)
@settings(max_examples=150, deadline=None)
def test_a_new_site_reads_back_as_what_was_given_or_is_refused(
    name: str, user: str, home: str, interface: str, nodes: tuple[str, ...]
) -> None:
    new = new_site(name, "triangle", user, home, interface, [(node, None) for node in nodes])
    is_odd = isinstance(tried(lambda: refuse_odd(new)), InputErrors)
    if is_odd and "\udcff" in "".join((name, user, home, interface, *nodes)):
        return
    found = tried(lambda: site_text(new, "the new site"))
    if isinstance(found, InputErrors):
        assert is_odd or len(set(nodes)) < 3
        assert not any("not valid TOML" in one.message or "unknown key" in one.message for one in found.problems())
        return
    text, site = found
    assert not is_odd
    assert (site.name, site.ssh_user, site.home) == (name, user, home)
    assert [(node.name, node.interface) for node in site.nodes] == [(node, interface) for node in nodes]
    keys = {"format", "name", "cabling", "ssh-user", "home", "interface", "gid-index", "nodes"}
    assert tomllib.loads(text).keys() == keys


@given(st.randoms(use_true_random=False), st.lists(VALUES, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_facts_are_paired_or_refused_with_places(random: Random, values: list[Any]) -> None:
    facts = facts_of_site(example_site("triangle"))
    body = changed(record(KIND, facts[0].host, facts[0].body()), random, values)
    first = tried(lambda: read_facts(json.dumps(body).encode(), "a.json"))
    if isinstance(first, InputErrors):
        assert all(one.where.startswith("a.json") for one in first.problems())
        return
    found = tried(lambda: pair([first, *facts[1:]], ["a.json", "b.json", "c.json"]))
    if isinstance(found, InputErrors):
        assert all(one.where for one in found.problems())
    else:
        assert len(found.nodes) == 3


GOOD = {"nccl-ring": "tp4", "oneshot-ring4": "tp4", "rocenante-ring4": "tp4"}
NAMES = sorted({name for one in fabric().transports.values() for name in one.settings} | set(fabric().tunable))


@given(
    st.sampled_from(sorted(GOOD)),
    st.booleans(),
    st.dictionaries(
        st.sampled_from(NAMES), st.sampled_from(["", "0", "1", "2", "4", "16", "Ring", "-1", "x"]), max_size=4
    ),
)
@settings(max_examples=60, deadline=None)
def test_rules_judge_any_environment_and_the_order_of_variables_does_not_matter(
    transport: str, tilelang: bool, variables: dict[str, str]
) -> None:
    good = over(transport, GOOD[transport])
    resolved = on_tilelang(good) if tilelang else good
    environment = {**resolved.environment, **variables}
    site = example_site("ring4")
    there = problems(replace(resolved, environment=environment), site, fabric())
    back = problems(replace(resolved, environment=dict(sorted(environment.items(), reverse=True))), site, fabric())
    assert [(one.rule.id, one.problem) for one in there] == [(one.rule.id, one.problem) for one in back]
    required = fabric().transports[transport].settings
    if any(name in required and required[name][0] != value for name, value in variables.items()):
        assert "fabric.required-settings" in {one.rule.id for one in there}


def test_a_shape_that_is_resolved_twice_gets_the_same_variables() -> None:
    site = example_site("ring4")
    for rank in range(4):
        first = node_environment(over("oneshot-ring4", "tp4"), site, rank, fabric())
        again = node_environment(over("oneshot-ring4", "tp4", shape()), site, rank, fabric())
        assert list(first.items()) == list(again.items()) == sorted(first.items())
