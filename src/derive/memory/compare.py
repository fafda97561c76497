# SPDX-License-Identifier: Apache-2.0
"""Predictions held against what was measured: the same rules, applied to the deployments that ran.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from derive.memory import weights
from derive.memory.facts import Facts, Measured
from derive.memory.kv import tokens_by_rate
from derive.memory.predict import Constants, kv_capacity, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One quantity of one deployment: as measured, and as the rules give it. Tokens, or bytes.

    ``fitted`` says that the rules took a constant from this very reading, so that its agreement says nothing; ``taken``
    says what a prediction took from which other deployment, where that is the whole of it.
    """

    deployment: str
    doc: str
    quantity: str
    measured: int
    measured_least: int
    predicted: int
    fitted: bool
    other_engine: bool
    taken: str = ""

    @property
    def in_tokens(self) -> bool:
        """Whether it counts tokens; else bytes."""
        return self.quantity.startswith("KV tokens")

    @property
    def error(self) -> int:
        """Predicted less measured; 0 within a range that was measured."""
        if self.measured_least <= self.predicted <= self.measured:
            return 0
        return self.predicted - (self.measured if self.predicted > self.measured else self.measured_least)


def compare(facts: Facts, found: Constants) -> tuple[Comparison, ...]:
    """Return every quantity that was measured beside its prediction."""
    return tuple(one for ran in facts.measured.values() for one in _compared(facts, found, ran))


def _compared(facts: Facts, found: Constants, ran: Measured) -> Iterator[Comparison]:
    if ran.kv_tokens is not None:
        yield from _tokens(facts, found, ran, ran.kv_tokens)
    if ran.other_engine:
        return
    if ran.weights is not None:
        table = weights.total(weights.shares(facts.tensors, ran.conditions.ranks, ran.conditions.formats))
        predicted = table + found.load
        yield _one(ran, "weights", ran.weights, ran.weights, predicted, fitted=facts.fit.weights == ran.name)
    if ran.available is not None:
        taken = rows(ran.conditions, facts, found, usable=facts.fit.usable_bytes, floor=0)
        predicted = facts.fit.usable_bytes - sum(row.bytes for row in taken)
        least, most = ran.available_range or (ran.available, ran.available)
        yield _one(ran, "MemAvailable", most, least, predicted, fitted=facts.fit.host == ran.name)


def _tokens(facts: Facts, found: Constants, ran: Measured, told: int) -> Iterator[Comparison]:
    """Compare tokens as the layout gives them, and as nothing but another deployment's bytes a token would."""
    fit = facts.measured[facts.fit.kv]
    fitted = fit.name == ran.name
    own = not fitted and fit.conditions.kv_format == ran.conditions.kv_format
    tokens = kv_capacity(ran.conditions, facts, found).tokens
    yield _one(ran, "KV tokens", told, told, tokens, fitted=fitted, taken=f"layout of {fit.name}" if own else "")
    if own:
        plain = tokens_by_rate(fit, ran.conditions.kv_bytes)
        taken = f"bytes a token of {fit.name}, no layout"
        yield _one(ran, "KV tokens by rate", told, told, plain, fitted=False, taken=taken)


def _one(
    ran: Measured, quantity: str, most: int, least: int, predicted: int, *, fitted: bool, taken: str = ""
) -> Comparison:
    return Comparison(
        deployment=ran.name,
        doc=ran.doc,
        quantity=quantity,
        measured=most,
        measured_least=least,
        predicted=predicted,
        fitted=fitted,
        other_engine=ran.other_engine,
        taken=taken,
    )
