# SPDX-License-Identifier: Apache-2.0
"""Print a tuning profile as a table, or which profiles there are.

Edge: the project, standard streams.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, project_root, table, terminal_width, wants_json
from derive.cli.options import something

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json

EXAMPLES = """\
  derive tuning show
  derive tuning show tp4
  derive tuning show tp4 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("profile", nargs="?", type=something, metavar="PROFILE", help="default: list them")


def run(args: argparse.Namespace) -> int:
    """Read the profiles and print one, or their names."""
    from derive.fabric.catalogue import load_fabric
    from derive.fabric.transports import find_tuning
    from derive.fabric.tuning_rows import rows
    from derive.project import load_launching

    fabric = load_fabric(load_launching(project_root(args)))
    if args.profile is None:
        listed = sorted(fabric.tunings.values(), key=lambda one: one.name)
        if wants_json(args):
            names: list[Json] = [{"name": one.name, "nodes": one.nodes, "doc": one.doc} for one in listed]
            answer_record("tuning-profiles", "profiles", {"profiles": names})
        else:
            answer(table([("profile", "nodes", "for"), *((one.name, str(one.nodes), one.doc) for one in listed)]))
        return 0
    found = rows(find_tuning(fabric, args.profile, "profile"), fabric)
    if wants_json(args):
        answer_record("tuning", args.profile, {"settings": [row.document() for row in found]})
    else:
        head = ("setting", "for", "value", "default", "meaning")
        cells = [(row.name, row.scope, row.value or "", row.default, row.meaning) for row in found]
        answer(table([head, *cells], width=terminal_width(sys.stdout)))
    return 0
