# SPDX-License-Identifier: Apache-2.0
"""Print what this machine says of its network, as a record: interfaces, addresses, RDMA devices and their tables.

Edge: this machine's /sys, addresses and clock, standard streams. Nothing is changed.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from derive.cli.console import answer_record, note

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive site facts > dgx1.json
  ssh dgx1 derive site facts > dgx1.json       where derive is installed there; else see docs/fabric.md
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--host", metavar="NAME", help="what the site calls this machine (default: its host name)")


def run(args: argparse.Namespace) -> int:
    """Read, print the record, and say what could not be read."""
    from derive.fabric.facts import KIND
    from derive.fabric.gather import gather

    facts = replace(gather(host=args.host or None), gathered_s=int(time.time()))
    answer_record(KIND, facts.host, facts.body())
    for text in facts.unread:
        note(f"not read: {text}")
    if not facts.devices:
        note("no RDMA devices here: no port of this machine can be the end of a cable")
    return 0
