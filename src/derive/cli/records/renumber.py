# SPDX-License-Identifier: Apache-2.0
"""Put records after all others, in the order given: two branches gave one number to two records.

Edge: the project's records, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, project_root, wants_json
from derive.cli.options import something

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive records renumber 0019-probe-2 0020-probe-2-ring4
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("records", nargs="+", type=something, metavar="RECORD", help="the names of their files")


def run(args: argparse.Namespace) -> int:
    """Write them anew, and answer with their new places."""
    from derive.records.renumber import renumber

    root = project_root(args)
    written = renumber(root, args.records)
    if wants_json(args):
        answer_record("records-renumber", root.name, {"written": [path.name for path in written]})
    else:
        answer("\n".join(path.relative_to(root).as_posix() for path in written))
    return 0
