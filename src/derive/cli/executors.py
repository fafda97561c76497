# SPDX-License-Identifier: Apache-2.0
"""List who may run steps beside this machine: whether they answer, how quick they are, and whether they are idle.

Edge: the user's settings, builders, SSH, standard streams.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, store_folder, table, wants_json
from derive.words import count_text

if TYPE_CHECKING:
    import argparse

    from derive.schedule.seen import Seen

EXAMPLES = """\
  derive executors                 all that config.toml names
  derive executors spark2 --json
  derive build perftest --on spark2 --on here
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these (default: all that config.toml names)")


def run(args: argparse.Namespace) -> int:
    """Ask all of them at once, and answer with the table; 1 where one takes no steps now."""
    from derive.net.user import user_config
    from derive.schedule.choose import choose, configured, measured
    from derive.schedule.model import HERE
    from derive.schedule.seen import see
    from derive.store.local import LocalStore

    choose(args.names, os.environ, option="NAME")  # which says what is wrong with the names
    names = set(args.names)
    entries = [
        one for one in configured(os.environ) if not names or one.name in names or (one.is_here and HERE in names)
    ]
    if not entries:
        what = "this machine has no table of its own, and needs none" if names else "no executor is configured"
        note(f"{what}: write [executors.NAME] in {user_config(os.environ)}")
    with LocalStore(store_folder(args), reading=True) as store:
        found = see(entries, measured(store) if entries else {})
    if wants_json(args):
        answer_record("executors", "this machine", {"executors": [one.document() for one in found]})
    elif found:
        answer(_text(found))
    return 0 if all(one.is_ready for one in found) else 1


def _text(found: tuple[Seen, ...]) -> str:
    rows = [("name", "builder", "platforms", "jobs", "speed", "buildkit", "now")]
    for one in found:
        entry = one.entry
        jobs = "" if entry.jobs is None else str(entry.jobs)
        builder = "this machine" if entry.builder is None else entry.builder
        platforms = ", ".join(entry.platforms) or "its own"
        rows.append((entry.name, builder, platforms, jobs, _speed(one), ", ".join(one.versions), _now(one)))
    return table(rows, right=frozenset({3}))


def _speed(one: Seen) -> str:
    number = f"{one.speed_permille / 1000:.2f}"
    if one.speed is not None:
        return f"{number} measured ({one.speed.steps})"
    return f"{number} configured" if one.entry.speed is not None else "not measured"


def _now(one: Seen) -> str:
    if not one.is_ready:
        return "; ".join(one.problems)
    return "ready" if one.verdict is None else f"idle, {count_text(one.verdict.jobs, 'job')}"
