# SPDX-License-Identifier: Apache-2.0
"""Deploy a release to the nodes of the site: the whole plan, and nothing changed, until --apply.

Edge: the project, the store, the site's file, the nodes, standard streams.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from derive.cli.console import note
from derive.cli.deploying import add_consents, deploy, show, wish_of
from derive.cli.options import something
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive deploy r7 --shape tp3-triangle              the plan: nothing is changed
  derive deploy r7 --shape tp3-triangle --why-not    what would refuse it, touching no node
  derive deploy r7 --shape tp3-triangle --pull-only --apply      bring image and files ahead
  derive deploy r7 --shape tp3-triangle --apply --replace
  derive deploy sha256:2c6d559b79df --shape tp4-ring --apply --replace --change-shape
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "release", type=something, metavar="RELEASE", help="its name or digest, or the digest of its image"
    )
    parser.add_argument("--shape", type=something, metavar="NAME", help="the shape (default, for a plan: the site's)")
    add_consents(parser)
    parser.add_argument("--adopt", type=something, metavar="NAME", help="stop this container too, and keep it aside")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--pull-only", action="store_true", help="bring image and files ahead; what serves goes on")
    what.add_argument("--why-not", action="store_true", help="say what would refuse it, and touch no node")


def run(args: argparse.Namespace) -> int:
    """Print the plan, or deploy."""
    from derive.deploy.service import plan_seen, plan_stored, prepare

    if args.apply and args.shape is None:
        raise InputErrors.one("--apply needs the shape by name", hint="say --shape NAME")
    if args.apply and args.why_not:
        raise InputErrors.one("--why-not touches no node", hint="leave --apply out")
    prepared = prepare(wish_of(args, args.release, args.shape, adopt=args.adopt, only_ahead=args.pull_only))
    if args.apply:
        for text in prepared.asked.notes:
            note(f"note: {text}")
        only = " --pull-only" if args.pull_only else ""
        return deploy(args, prepared, f"derive deploy {args.release} --shape {args.shape}{only}")
    if args.why_not:
        return show(args, plan_stored(prepared))
    return show(args, *asyncio.run(plan_seen(prepared)))
