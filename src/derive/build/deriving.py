# SPDX-License-Identifier: Apache-2.0
"""A target to its outputs, with what other machines have of it: plan, take, build, and plan again for what was not had.

Edge: puts the store, the caches and the executor together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from derive.build.answers import known_of
from derive.build.execute import Progress
from derive.build.plan import Action, Plan, make_plan
from derive.build.service import Options, executor, plan_for, preflight, realise
from derive.build.substituting import NotBrought, PlanAgain
from derive.cache.service import substitutes_of
from derive.cache.substitute import Substitutes
from derive.derivations.model import Derivation, Output, closure
from derive.store.local import LocalStore


def derive_outputs(
    target: Derivation, store: LocalStore, options: Options, progress: Progress, root: Path, *, whole: bool = False
) -> Mapping[str, Output]:
    """Derive a target of the project at ``root``; with ``whole``, all of its closure, and nothing of it from elsewhere.

    Caches are asked only where something would have to be run.

    Raises:
        Contradicted: when trusted builders, or one and this machine, say two things of a step.
        DeriveError: as :func:`derive.build.service.realise`.
    """
    plan = plan_for(target, store, root, whole=whole, own=options.no_cache)
    found = None
    if not whole and not options.no_cache:
        found = substitutes_of(root, store, note=progress.note, offline=options.offline)
    if found is None:
        outputs = realise(plan, store, options, progress)
        if whole and not options.no_cache:
            _compare_with_others(target, store, progress, root)
        return outputs
    with found:
        if not _with_caches(target, found).is_done:
            found.refresh()
        return _realised(target, store, options, progress, found)


def planned(target: Derivation, store: LocalStore, root: Path, *, no_cache: bool = False) -> Plan:
    """Plan a target with what is known of the user's caches, and ask nobody; nothing is kept from being collected."""
    found = None if no_cache else substitutes_of(root, store, note=lambda _: None)
    if found is None:
        return plan_for(target, store, root, own=no_cache, to_run=False)
    with found:
        return _with_caches(target, found)


def bring_vouched(
    target: Derivation, store: LocalStore, options: Options, progress: Progress, found: Substitutes
) -> int:
    """Bring what a plan for a target would take from caches, build nothing, and return how many outputs came.

    Raises as :func:`derive_outputs`.
    """
    store.protect(one.id for one in closure(target))
    while True:
        plan = _with_caches(target, found)
        steps = plan.of(Action.SUBSTITUTE)
        if not steps:
            return 0
        wanted = replace(plan, target=steps[-1].derivation, steps=steps, title=f"what others have of {target.name}")
        preflight(wanted, store, options)
        try:
            executor(store, options, progress, substitute=found).run(wanted)
        except NotBrought as error:
            if not found.exclude(error.resolved):
                raise
        else:
            return len(steps)


def _compare_with_others(target: Derivation, store: LocalStore, progress: Progress, root: Path) -> None:
    """Compare what was built here with what others said of it by what was read last; raises Contradicted."""
    found = substitutes_of(root, store, note=progress.note, offline=True)
    if found is None:
        return
    with found:
        order = closure(target)
        resolved = store.database.resolved_ids(one.id for one in order)
        rows = store.database.realisations(resolved.values())
        for one in order:
            row = rows.get(resolved[one.id]) if one.id in resolved else None
            if row is not None:
                found.agree(one, row.resolved, known_of(row).outputs)


def _with_caches(target: Derivation, found: Substitutes) -> Plan:
    """Plan with what the caches have, but for what is built more quickly than taken."""
    while True:
        plan = make_plan(target, found.knowledge())
        if found.worthwhile(plan):
            return plan


def _realised(
    target: Derivation, store: LocalStore, options: Options, progress: Progress, found: Substitutes
) -> Mapping[str, Output]:
    while True:
        plan = _with_caches(target, found)
        preflight(plan, store, options)
        try:
            return executor(store, options, progress, substitute=found).run(plan)
        except PlanAgain:
            continue
        except NotBrought as error:
            if not found.exclude(error.resolved):
                raise
