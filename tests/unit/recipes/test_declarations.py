# SPDX-License-Identifier: Apache-2.0
"""Keys and rules of recipes, and their page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.recipes.declarations import SHAPE, TOP, Each, Spec
from derive.recipes.rules import RULES
from support.cli import CHECKOUT

PAGE = (CHECKOUT / "docs" / "recipes.md").read_text()


def keys(spec: Spec) -> Iterator[str]:
    if isinstance(spec, Each):
        yield from keys(spec.values)
    elif isinstance(spec, Mapping):
        for key, inner in spec.items():
            yield key
            yield from keys(inner)


def test_every_key_is_on_the_page() -> None:
    named = {*keys(TOP), *keys(SHAPE)}
    marks = ("`{}`", "[{}]", "[{}.", ".{}]")
    assert [key for key in sorted(named) if not any(mark.format(key) in PAGE for mark in marks)] == []


def test_every_rule_is_on_the_page_with_what_it_gives() -> None:
    rows = {line.split("`")[1]: line for line in PAGE.splitlines() if line.startswith("| `")}
    assert [rule.id for rule in RULES if rule.id not in rows] == []
    for rule in RULES:
        derived = [path[-1] for path in rule.gives if path[0] == "arguments"]
        assert [key for key in derived if f"`{key}`" not in rows[rule.id]] == [], rule.id


def test_rules_have_distinct_names_and_none_gives_what_another_gives() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    given = [path for rule in RULES for path in rule.gives]
    assert len(set(given)) == len(given)
