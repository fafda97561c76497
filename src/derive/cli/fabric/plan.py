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
  derive fabric plan --transport oneshot-direct --bytes 480KiB
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--recipe", type=something, metavar="NAME", help="default: that of the default image")
    parser.add_argument("--shape", type=something, metavar="NAME", help="default: the recipe's default shape")
    parser.add_argument("--transport", type=something, metavar="NAME", help="this one, for the shape or for none")
    parser.add_argument(
        "--cabling",
        choices=("triangle", "ring4"),
        help="default: the shape's, else one of the transport's; a site of another gives way to the example",
    )
    parser.add_argument(
        "--bytes",
        type=_size,
        metavar="SIZE",
        help="of the vector, as in 491520 or 2MiB (default: the greatest decode step)",
    )
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
        note(f"note: {text}")
    if wants_json(args):
        from derive.fabric.plan_answer import body

        answer_record("fabric-plan", made.plan.transport, body(made.plan, made.planned))
    else:
        from derive.cli.fabric.plan_text import plan_text

        answer(plan_text(made.plan, made.planned))
    return 0


def _size(text: str) -> int:
    from derive.recipes.forms import size_bytes

    try:
        size = int(text) if text.isascii() and text.isdecimal() else size_bytes(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number of bytes, or a size as in 2MiB: {text!r}") from None
    if size < 2 or size % 2:
        raise argparse.ArgumentTypeError(f"not a whole number of BF16 numbers of 2 bytes: {text!r}")
    return size
