# SPDX-License-Identifier: Apache-2.0
"""What the store knows of earlier runs, for the prices of a plan.

Edge: the store's database.
"""

from __future__ import annotations

import json

from derive.build.plan import Action, Plan
from derive.build.prices import Past, Predecessor, Rate, Sample
from derive.cache.rows import served_rate
from derive.derivations.model import parse_output
from derive.store.database import Database
from derive.store.history import builder_totals, latest_derivations, recent_steps


def past_of(database: Database, plan: Plan) -> Past:
    """Return what is known of the steps that a plan would run."""
    names = [step.derivation.name for step in plan.steps if step.action is not Action.REUSE]
    if not names:
        return Past(samples={}, rates={}, predecessors={})
    samples = {
        key: [
            Sample(
                derivation=step.derivation,
                duration_ns=step.duration_ns,
                weight_bytes=step.weight_bytes,
                written_bytes=step.written_bytes,
            )
            for step in steps
        ]
        for key, steps in recent_steps(database, names).items()
    }
    rates = {
        builder: Rate(
            steps=steps,
            duration_ns=duration,
            weight_bytes=weight,
            written_bytes=written,
            weight_square=square,
            weight_duration=product,
        )
        for builder, steps, duration, weight, written, square, product in builder_totals(database)
    }
    predecessors = {
        key: Predecessor(
            derivation=derivation,
            document=json.loads(document),
            outputs={name: parse_output(text) for name, text in json.loads(outputs).items()},
        )
        for key, (derivation, document, outputs) in latest_derivations(database, names).items()
    }
    cache_rate = served_rate(database) if plan.of(Action.SUBSTITUTE) else None
    return Past(samples=samples, rates=rates, predecessors=predecessors, cache_rate=cache_rate)
