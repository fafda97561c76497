# SPDX-License-Identifier: Apache-2.0
"""Measures the engine and prints a table of ratios, from one run on one machine: docs/speed.md.

Edge: arguments, standard streams. No figure makes it fail.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from derive import __version__
from derive.canonical import Json
from derive.cli.console import answer, guarded, note, store_folder
from derive.project import find_root
from derive.records.model import record
from speed.buildkit import run as run_buildkit
from speed.fleet import run as run_fleet
from speed.hashing import run as run_hashing
from speed.image import run as run_image
from speed.launching import run as run_launching
from speed.layers import run as run_layers
from speed.machine import facts_of, go_ahead, load
from speed.memory import run as run_memory
from speed.patches import run as run_patches
from speed.planning import run as run_planning
from speed.production import run as run_production
from speed.scratch import Bench, bench
from speed.startup import run as run_startup
from speed.store import run as run_store
from speed.table import Row, document, render
from speed.why import run as run_why

Measure = Callable[[Bench, Callable[[str], None]], list[Row]]

GROUPS: dict[str, Measure] = {
    "startup": run_startup,
    "planning": run_planning,
    "why": run_why,
    "patches": run_patches,
    "store": run_store,
    "hashing": run_hashing,
    "layers": run_layers,
    "memory": run_memory,
    "image": run_image,
    "launching": run_launching,
    "fleet": run_fleet,
    "production": run_production,
    "buildkit": run_buildkit,
}
"""In the order in which they are measured and printed. The last two say what they lack, where they lack something."""

_EXAMPLES = """\
examples:
  bench/engine/run.py
  bench/engine/run.py --only startup --only hashing
  bench/engine/run.py --ahead --json speed.json
"""


def main(argv: Sequence[str]) -> int:
    """Measure what is asked for, and print it."""
    args = _parser().parse_args(argv)
    return guarded(lambda: _measure(args))


def _measure(args: argparse.Namespace) -> int:
    root = find_root(Path.cwd())
    store = store_folder(args)
    name = args.image
    if args.ahead:
        go_ahead()
    notes: list[str] = []

    def say(text: str) -> None:
        note(text)
        notes.append(text)

    before = load()
    rows: list[Row] = []
    jobs = len(os.sched_getaffinity(0))
    with bench(root, store, name, jobs=jobs, rounds=args.rounds) as setting:
        for group in args.only or GROUPS:
            rows += GROUPS[group](setting, say)
    facts = {
        **facts_of(store),
        "load": f"{before} at the start, {load()} at the end",
        "priority": "ahead of everything else" if args.ahead else "as everything else",
    }
    answer("\n".join([*(f"{key:<10} {fact}" for key, fact in facts.items()), "", render(rows), "", *notes]))
    if args.json:
        body: dict[str, Json] = {"machine": facts, "notes": list(notes), "rows": document(rows)}
        args.json.write_text(json.dumps(record("engine-speed", f"derive {__version__}", body), indent=1) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", choices=tuple(GROUPS), metavar="NAME", help=", ".join(GROUPS))
    parser.add_argument("--image", metavar="NAME", default="probe", help="the image to measure with (default: probe)")
    parser.add_argument("--store", metavar="DIR", help="a store that holds it (default: as for derive)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="repetitions of what is slow (default: 3)")
    parser.add_argument("--ahead", action="store_true", help="run before everything else on the machine (root)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a record")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
