# SPDX-License-Identifier: Apache-2.0
"""Why has a shape a value: where it was written and what it stands above, or the rule that gave it and what that read.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.canonical import Json
from derive.errors import InputErrors
from derive.recipes.merge import leaves
from derive.recipes.resolved import Origin, Resolved
from derive.recipes.rules import Rule, rule_named, rules_for
from derive.recipes.values import plain_text
from derive.toml import key_path
from derive.words import near

_TABLES = ("arguments", "environment", "limits")
"""Tables whose keys may be named without the table."""

_IDEAS = {
    "shape digest": (
        "the SHA-256 of the shape's bundle: its launch files for a site that is no place,",
        "a function of image digest, model pin, recipe, shape and renderer; the same at every site",
    ),
    "launch digest": (
        "the SHA-256 of the files that nodes of one site are given, taken without the label that carries it:",
        "a function of the shape's bundle and the site",
    ),
    "image digest": ("the digest of the platform's manifest: what Docker is given, and what the cache is named after",),
}
"""What is no key of a recipe, and is asked for all the same."""


def why(resolved: Resolved, key: str) -> tuple[str, ...]:
    """Return what explains a key, as lines: an option or variable by its name, or any key by its path.

    A table is explained key by key, and a name that stands in several tables in each of them.

    Raises:
        InputErrors: when the shape has no such key, with the nearest names.
    """
    name = key.removeprefix("--")
    options = (f"arguments.{name}", f"arguments.{name.removeprefix('no-')}") if key.startswith("--") else ()
    for wanted in (*options, name):
        lines = [*_explained(resolved, wanted)]
        if lines:
            return tuple(lines)
    raise InputErrors.one(
        f"nothing in this shape is called {key!r}",
        where=f"recipes/{resolved.recipe}.toml: shapes.{resolved.shape}",
        hint=near(key, known(resolved)) or "derive render --json lists what a node is told",
    )


def known(resolved: Resolved) -> tuple[str, ...]:
    """Return every name that can be asked for, sorted: paths, and short names of options and variables."""
    paths = {*resolved.origins, *resolved.removed}
    short = {path.partition(".")[2] for path in paths if path.startswith(tuple(f"{table}." for table in _TABLES))}
    given = {key_path(path[1:]) for rule in _node_rules(resolved) for path in rule.gives}
    needs = {need.capability for need in resolved.needs}
    return tuple(
        sorted(
            {
                *paths,
                *short,
                *given,
                *needs,
                *resolved.dropped,
                *_IDEAS,
                *(rule.id for rule in rules_for(resolved.schema)),
            }
        )
    )


def _explained(resolved: Resolved, key: str) -> Iterator[str]:
    values = {key_path(path): value for path, value in leaves(resolved.document)}
    for path in _matching(resolved.origins, key):
        if path in values and not path.startswith("dropped."):
            yield from _value(path, values[path], resolved.origins[path])
    for path in _matching(resolved.removed, key):
        yield from _removed(path, resolved.removed[path])
    for name, reason in resolved.dropped.items():
        if key in (name, name.partition("=")[0], key_path(("dropped", name))):
            yield f"{name}: no longer there"
            yield from _words("why", reason)
    for need in resolved.needs:
        if need.capability == key:
            yield f"{key}: a capability that the image must have"
            yield from _words("needed by", need.because)
    yield from _rules(resolved, key)
    if key in _IDEAS:
        yield from (f"{key}: {_IDEAS[key][0]}", *(f"  {line}" for line in _IDEAS[key][1:]))


def _rules(resolved: Resolved, key: str) -> Iterator[str]:
    for node_rule in _node_rules(resolved):
        for given in node_rule.gives:
            if key in (key_path(given), key_path(given[1:])):
                yield f"{key_path(given)}: each node has its own"
                yield from _words("rule", f"{node_rule.id}: {node_rule.text}")
    for rule in rules_for(resolved.schema):
        if rule.id == key:
            yield f"rule {rule.id}: {rule.text}"
            yield from _words("reads", *map(key_path, rule.reads))
            yield from _words("gives", *map(key_path, rule.gives))


def _matching(paths: Mapping[str, Origin], key: str) -> list[str]:
    """Return the paths that a key means: itself, an option or variable, all below a table, or any that ends so."""
    wanted = (key, *(f"{table}.{key}" for table in _TABLES))
    found = [path for path in paths if path in wanted or path.startswith(tuple(f"{one}." for one in wanted))]
    if found:
        return sorted(found)
    return sorted(path for path in paths if path.endswith(f".{key}"))


def _value(path: str, value: Json, origin: Origin) -> Iterator[str]:
    yield f"{path} = {_text(value)}"
    place = f"{origin.file}: {origin.key}"
    if origin.rule is None:
        yield from _words("written", place)
    else:
        if origin.key != path:
            yield from _words("written", place)
        rule = rule_named(origin.rule)
        yield from _words("rule", f"{origin.rule}: {rule.text}" if rule is not None else origin.rule)
        yield from _words("from", *origin.inputs)
        if origin.doc and (rule is None or origin.doc != rule.text):
            yield from _words("meaning", origin.doc)
    if origin.overrides is not None:
        yield from _words("instead of", origin.overrides)


def _removed(path: str, origin: Origin) -> Iterator[str]:
    yield f"{path}: removed"
    yield from _words("why", origin.doc)
    yield from _words("written", f"{origin.file}: {origin.key}")
    if origin.overrides is not None:
        yield from _words("instead of", origin.overrides)


def _words(label: str, *lines: str) -> Iterator[str]:
    for line in lines:
        yield f"  {label:<11}{line}"
        label = ""


def _text(value: Json) -> str:
    return '""' if value == "" else plain_text(value)


def _node_rules(resolved: Resolved) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules_for(resolved.schema) if rule.each_node)
