# SPDX-License-Identifier: Apache-2.0
"""Say who vouches for what in each cache, what cannot be right, and what of a target would be taken.

Edge: the store, the project, your settings, standard streams. No cache is asked: derive cache pull does that.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from derive.cli.cache.alarms import alarm_texts, note_next
from derive.cli.console import answer, answer_record, note, project_of, project_root, store_folder, table, wants_json
from derive.cli.trusting import policy_here
from derive.store.local import LocalStore
from derive.words import count_text, duration_text, size_text

if TYPE_CHECKING:
    import argparse

    from derive.build.plan import Plan
    from derive.cache.status import CacheStatus, Status
    from derive.canonical import Digest, Json

EXAMPLES = """\
  derive cache status                exit code 1 when something there cannot be right
  derive cache status probe          and what of an image would be taken, and what be built
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", nargs="?", metavar="TARGET", help="an image or a derivation of the project")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as its file says")


def run(args: argparse.Namespace) -> int:
    """Gather, print; 1 when something cannot be right."""
    from derive.cache.service import revoked_here
    from derive.cache.settings import load_caches
    from derive.cache.status import cache_status

    caches = load_caches(os.environ)
    policy = policy_here(args)
    names: dict[Digest, str] = {} if policy is None else {key.id: name for name, key in policy.keys.items()}
    with LocalStore(store_folder(args), reading=True) as store:
        found = cache_status(store, caches, policy, revoked_here())
        plan = None if args.name is None or not found.is_sound else _planned(args, store)
    if wants_json(args):
        body: dict[str, Json] = {
            "caches": [one.document(names) for one in found.caches],
            "conflicts": [one.document() for one in found.conflicts],
            "came_from_caches": found.came,
            "by_ended_keys": found.ended,
        }
        answer_record("cache-status", args.name or "", body if plan is None else {**body, "plan": plan.document()})
    else:
        answer(_text(found, names, plan))
    if not caches:
        note("there is no cache yet: derive cache add REF")
    elif policy is None or not policy.keys:
        note("no project here trusts a key: nothing is taken from a cache ([tool.derive.trust.keys])")
    if found.ended:
        note(f"{count_text(found.ended, 'output')} came by the word of keys that count no longer: taken or built anew")
    note_next(found)
    return 0 if found.is_sound else 1


def _planned(args: argparse.Namespace, store: LocalStore) -> Plan:
    from derive.build.deriving import planned
    from derive.build.service import evaluate

    return planned(evaluate(project_of(args), args.name, args.platform), store, project_root(args))


def _text(found: Status, names: dict[Digest, str], plan: Plan | None) -> str:
    parts = [table([("cache", "place", "read", "key", "worth", "entries", "steps"), *_rows(found.caches)])]
    parts += alarm_texts(found, names)
    if found.came:
        parts.append(f"{count_text(found.came, 'output')} of this store came from caches")
    if plan is not None:
        parts.append(_plan_text(plan))
    return "\n\n".join(parts)


def _rows(caches: tuple[CacheStatus, ...]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for one in caches:
        age = None if one.place is None or not one.place.read_s else int(time.time()) - one.place.read_s
        first = (one.config.name, one.config.place, "never" if age is None else f"{_age(age)} ago")
        if not one.logs:
            rows.append((*first, "", "", "", ""))
        for number, log in enumerate(one.logs):
            lead = first if not number else ("", "", "")
            rows.append((*lead, log.name or log.key.short, log.worth, str(log.head.sequence), str(log.claims)))
    return rows


def _age(seconds: int) -> str:
    return f"{max(0, seconds)} s" if seconds < 60 else duration_text(seconds * 1_000_000_000)


def _plan_text(plan: Plan) -> str:
    from derive.build.plan import Action

    taken = plan.of(Action.SUBSTITUTE)
    by = sorted({name for step in taken if step.vouch is not None for name in step.vouch.signers})
    words = f"{plan.target.name} ({plan.target.host}): {count_text(len(taken), 'output')} would be taken"
    words += f" ({size_text(plan.substitute_bytes)}), by the word of {', '.join(by)}" if taken else ""
    return f"{words}; {len(plan.of(Action.BUILD))} to build, {len(plan.of(Action.FETCH))} to fetch"
