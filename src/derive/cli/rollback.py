# SPDX-License-Identifier: Apache-2.0
"""Deploy again what last ran well before what runs now, through the same checks: a plan, until --apply.

Edge: the project, the store, the site's file, the operator's folder, the nodes, standard streams.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from derive.cli.console import note
from derive.cli.deploying import add_consents, deploy, show, wish_of
from derive.cli.options import something

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive rollback                 which release that would be, and the plan
  derive rollback --apply
  derive rollback probe --apply   where several services were deployed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("service", nargs="?", type=something, metavar="SERVICE", help="default: the only one there is")
    add_consents(parser, replaces=True)
    parser.set_defaults(replace=True)


def run(args: argparse.Namespace) -> int:
    """Find the release, print the plan, or deploy it."""
    import os

    from derive.deploy.last_good import last_good
    from derive.deploy.service import plan_seen, prepare, site_of

    found = asyncio.run(last_good(site_of(os.environ, args.site), os.environ, args.service))
    served = found.served
    note(f"back to {served.release} ({served.shape}), {found.how}")
    prepared = prepare(wish_of(args, str(served.release_digest), served.shape))
    if args.apply:
        return deploy(args, prepared, f"derive rollback to {served.release} --shape {served.shape}")
    return show(args, *asyncio.run(plan_seen(prepared)))
