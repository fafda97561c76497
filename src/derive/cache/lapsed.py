# SPDX-License-Identifier: Apache-2.0
"""What lies below things in a store by the word of keys that count no more.

Edge: the store's database, the project, the user's revoked keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

from derive.cache.rows import substitutions
from derive.cache.standing import Belief, belief_in
from derive.canonical import Digest
from derive.errors import CheckFailed
from derive.store import graph
from derive.store.local import LocalStore
from derive.store.words import Word, words
from derive.trust.policy import OutputRule
from derive.words import count_text

_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapsed:
    """A step whose output was believed by the word of keys, given by id or name, that are not enough any more."""

    name: str
    signers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    name: str
    builder: str
    below: tuple[Digest, ...]
    signers: Mapping[Digest, str] | None


def lapsed_below(store: LocalStore, root: Path | None, targets: Iterable[Digest]) -> tuple[Lapsed, ...]:
    """Return what derivations rest on, or are, that the project at ``root`` believes no longer; sorted by name.

    Raises as :func:`derive.cache.standing.belief_in`.
    """
    if not store.database.has_substituted():
        return ()
    belief = belief_in(root)
    names = {} if belief.policy is None else {key.id: name for name, key in belief.policy.keys.items()}
    nodes = _nodes(store, targets, names)
    order = tuple(TopologicalSorter({key: node.below for key, node in nodes.items()}).static_order())
    asked: dict[Digest, frozenset[OutputRule]] = {}
    found = []
    for key in reversed(order):
        node = nodes.get(key)
        if node is None:
            continue
        rules = _rules(belief, node, asked.get(key, frozenset()))
        for below in node.below:
            asked[below] = asked.get(below, frozenset()) | rules
        if node.signers is not None and not belief.counts(node.name, node.builder, node.signers, rules):
            found.append(Lapsed(name=node.name, signers=tuple(sorted(node.signers.values()))))
    return tuple(sorted(set(found), key=lambda one: (one.name, one.signers)))


def require_standing(store: LocalStore, root: Path | None, targets: Iterable[Digest], what: str) -> None:
    """Raise CheckFailed where anything below some derivations is by the word of keys that count no more."""
    found = lapsed_below(store, root, targets)
    if found:
        raise CheckFailed(
            f"{what} rests on {count_text(len(found), 'output')} by the word of keys that count no more",
            detail=lines(found),
            hint="derive it again: what they vouched for is then taken by others' word, or built",
        )


def lines(found: tuple[Lapsed, ...]) -> list[str]:
    """Return a line for each, the first ones where they are many."""
    shown = [f"{one.name}, by the word of {', '.join(one.signers)}" for one in found[:_SHOWN]]
    return shown + ([f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])


def _rules(belief: Belief, node: _Node, above: frozenset[OutputRule]) -> frozenset[OutputRule]:
    rule = None if belief.policy is None else belief.policy.own_rule(node.name, node.builder)
    return above if rule is None else frozenset((rule,))


def _nodes(store: LocalStore, targets: Iterable[Digest], names: Mapping[Digest, str]) -> dict[Digest, _Node]:
    came, kept = substitutions(store.database), words(store.database)
    nodes: dict[Digest, _Node] = {}
    level = set(targets)
    while level:
        rows = graph.derivations(store.database, sorted(level))
        for key in level:
            row, word = rows.get(key), kept.get(key)
            if word is not None:
                nodes[key] = _of_word(word, names)
            elif row is not None:
                one = came.get(row.resolved)
                signers = None if one is None else {signer: name for name, signer in one.signers.items()}
                builder = row.builder.partition("/")[0]
                nodes[key] = _Node(name=row.name, builder=builder, below=tuple(row.below()), signers=signers)
        level = {below for key in level if key in nodes for below in nodes[key].below if below not in nodes}
    return nodes


def _of_word(word: Word, names: Mapping[Digest, str]) -> _Node:
    document = json.loads(word.document)
    inputs = [one for one in document["inputs"].values() if isinstance(one, dict) and "derivation" in one]
    return _Node(
        name=word.name,
        builder=str(document["builder"]).partition("/")[0],
        below=tuple(Digest(one["derivation"]) for one in inputs),
        signers={key: names.get(key) or str(key) for key in word.signers},
    )
