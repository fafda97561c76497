# SPDX-License-Identifier: Apache-2.0
"""Write one page about everything that records say: releases, what changed, figures, sizes, scores, decisions.

Edge: the project's records, one file, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer_record, note, project_root, wants_json
from derive.cli.options import something

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive records report --output report.html    one page, complete in itself: read it in a browser, print it
  derive records report > report.html           the same
  derive records report --json                  what it says, as a record
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--output", type=something, metavar="FILE", help="write the page there (default: print it)")


def run(args: argparse.Namespace) -> int:
    """Read, lay out, write; exit 1 when the chain of releases has a fault, which the page says too."""
    from derive.outfile import STANDARD_OUTPUT, check_output, open_output
    from derive.report.gather import gather
    from derive.report.model import document
    from derive.report.page import page, summary
    from derive.report.read import files_of_records, page_template, texts_at_hand

    if args.output is not None:
        check_output(args.output)
    root = project_root(args)
    files = files_of_records(root)
    account = gather(files, texts_at_hand(root, files))
    if args.output is not None or not wants_json(args):
        with open_output(args.output or STANDARD_OUTPUT) as file:
            file.write(page(account, page_template()))
    if wants_json(args):
        answer_record("records-report", "releases", document(account))
    for problem in account.chain.problems:
        note(f"finding: {problem}")
    note(f"note: {summary(account)}")
    return 1 if account.chain.problems else 0
