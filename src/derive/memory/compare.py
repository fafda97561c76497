# SPDX-License-Identifier: Apache-2.0
"""Predictions held against what was measured: the same rules, applied to the deployments that ran.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from derive.memory import weights
from derive.memory.facts import Facts, Measured
from derive.memory.predict import Constants, kv_capacity, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One quantity of one deployment: as measured, and as the rules give it. Tokens, or bytes.

    ``fitted`` says that the rules took a constant from this very reading, so that its agreement says nothing.
    """

    deployment: str
    doc: str
    quantity: str
    measured: int
    measured_least: int
    predicted: int
    fitted: bool
    other_engine: bool

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
        tokens = kv_capacity(ran.conditions, facts, found).tokens
        yield _one(ran, "KV tokens", ran.kv_tokens, ran.kv_tokens, tokens, fitted=facts.fit.kv == ran.name)
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


def _one(ran: Measured, quantity: str, most: int, least: int, predicted: int, *, fitted: bool) -> Comparison:
    return Comparison(
        deployment=ran.name,
        doc=ran.doc,
        quantity=quantity,
        measured=most,
        measured_least=least,
        predicted=predicted,
        fitted=fitted,
        other_engine=ran.other_engine,
    )
