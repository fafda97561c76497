# SPDX-License-Identifier: Apache-2.0
"""Print where an output lies: a blob's file, or a tree as a folder, which is made on demand.

Edge: the store, standard streams.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from derive.canonical import Digest
from derive.cli.console import answer, answer_record, path_text, project_of, store_folder, wants_json
from derive.cli.lapses import tell_lapsed
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

    from derive.derivations.model import Derivation
    from derive.operands import Named

EXAMPLES = """\
  derive store path perftest
  derive store path probe@linux/arm64 --output config
  derive store path tree:3f1c0d9e2a7b
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "operand", metavar="NAME|DIGEST", help="a name, image:NAME, drv:NAME or ID, tree:DIGEST, DIGEST"
    )
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")
    parser.add_argument("--output", default="out", metavar="NAME", help="which output of it (default: out)")


def run(args: argparse.Namespace) -> int:
    """Find it and print its path."""
    from derive.build.service import evaluate
    from derive.operands import parse_operand
    from derive.store.places import find_place

    meant: list[Digest] = []

    def current(named: Named) -> Derivation:
        kind = "" if named.kind == "any" else f"{named.kind}:"
        found = evaluate(project_of(args), f"{kind}{named.name}", named.platform)
        meant.append(found.id)
        return found

    with LocalStore(store_folder(args), reading=True) as store:
        place = find_place(store, parse_operand(args.operand, args.platform), args.output, current)
        tell_lapsed(args, store, meant)
    if wants_json(args):
        answer_record("store-path", args.operand, {"output": str(place.output), "path": path_text(place.path)})
    else:
        answer(os.fsdecode(os.fsencode(place.path)))
    return 0
