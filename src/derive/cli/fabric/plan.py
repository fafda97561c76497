# SPDX-License-Identifier: Apache-2.0
"""Plan collectives over a cabling: bytes over each link, the link that limits, and a time held against measurements.

Edge: the project, the site's file, standard streams.
"""

from __future__ import annotations

import argparse
import os

from derive.cli.console import answer, answer_record, note, project_root, wants_json
from derive.cli.options import something

EXAMPLES = """\
  derive fabric plan                                     the default recipe's default shape
  derive fabric plan --shape tp4-ring --transport oneshot-ring4
  derive fabric plan --transport oneshot-direct --bytes 491520
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--recipe", type=something, metavar="NAME", help="default: that of the default image")
    parser.add_argument("--shape", type=something, metavar="NAME", help="default: the recipe's default shape")
    parser.add_argument("--transport", type=something, metavar="NAME", help="this one, for the shape or for none")
    parser.add_argument("--cabling", choices=("triangle", "ring4"), help="default: the shape's, or one that fits")
    parser.add_argument("--bytes", type=_size, metavar="N", help="of the vector (default: the greatest decode step)")
    parser.add_argument("--site", type=something, metavar="FILE", help="the site's file (default: $DERIVE_SITE, ...)")


def run(args: argparse.Namespace) -> int:
    """Plan and print."""
    from derive.fabric.plan_service import Asked, make_plan

    asked = Asked(
        recipe=args.recipe,
        shape=args.shape,
        transport=args.transport,
        cabling=args.cabling,
        size=args.bytes,
        site=args.site,
    )
    made = make_plan(project_root(args), asked, os.environ)
    for text in made.notes:
        note(text)
    if wants_json(args):
        from derive.fabric.plan_answer import body

        answer_record("fabric-plan", made.plan.transport, body(made.plan, made.planned))
    else:
        from derive.cli.fabric.plan_text import plan_text

        answer(plan_text(made.plan, made.planned))
    return 0


def _size(text: str) -> int:
    if not text.isdecimal() or int(text) < 2 or int(text) % 2:
        raise argparse.ArgumentTypeError(f"not a whole number of BF16 numbers of 2 bytes: {text!r}")
    return int(text)
