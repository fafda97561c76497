# SPDX-License-Identifier: Apache-2.0
"""List the shapes of releases that may be deployed, with what is waived and until when.

Edge: the project's records, the clock, standard streams.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_root, table, wants_json
from derive.cli.options import something

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive releases
  derive releases --shape tp4-ring
  derive releases --all                    candidates, retired and historical ones, too
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--all", action="store_true", help="also what may not be deployed")
    parser.add_argument("--shape", type=something, metavar="NAME", help="one shape alone")


def run(args: argparse.Namespace) -> int:
    """Read the records, answer with the table."""
    from derive.records.folder import files_below, sound
    from derive.releases.find import known_of
    from derive.releases.listing import document_of, rows_of, table_of

    root, now = project_root(args), int(time.time())
    files = files_below(root)
    chain = sound(files)
    known = {one.record.subject: known_of(one, files) for one in chain.entries if one.record.kind == "candidate"}
    every = rows_of(chain, {name: one.release for name, one in known.items()})
    rows = [row for row in every if args.shape in (None, row.shape) and (args.all or row.state == "promoted")]
    if wants_json(args):
        answer_record("releases", "deployable" if not args.all else "all", document_of(rows, chain.head, now))
        return 0
    answer(table(table_of(rows, now)) if rows else "nothing may be deployed: no shape of a release is promoted")
    if not args.all and len(rows) < len(every):
        note(f"{len(every) - len(rows)} more that may not be deployed: derive releases --all")
    return 0
