# SPDX-License-Identifier: Apache-2.0
"""Stop a service on all nodes of the site, its guards last: what would be stopped, until --apply.

Edge: the site's file, the nodes, standard streams.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, print_error, table, wants_json
from derive.cli.options import something
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive stop                         what runs, and would be stopped
  derive stop --apply
  derive stop probe --apply           one of several services
  derive stop --container ds41f --apply      one that no deploy started, its guard ds41f-memguard.service first
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("service", nargs="?", type=something, metavar="SERVICE", help="default: the only one there is")
    parser.add_argument("--site", type=something, metavar="FILE", help="the site's file (default: $DERIVE_SITE, ...)")
    parser.add_argument("--container", type=something, metavar="NAME", help="a container that no deploy started")
    parser.add_argument("--apply", action="store_true", help="do it: without, nothing is changed")


def run(args: argparse.Namespace) -> int:
    """Say what runs, or stop it."""
    from derive.deploy.node_errors import together
    from derive.deploy.stopping import Stopping, stop

    if args.service is not None and args.container is not None:
        raise InputErrors.one("a service and --container", hint="name one of them")
    wanted = Stopping(
        service=args.service,
        container=args.container,
        what=f"derive stop {args.container or args.service or ''}".rstrip(),
        apply=args.apply,
    )
    done = asyncio.run(stop(os.environ, args.site, wanted, note))
    if wants_json(args):
        answer_record("stop", done.name, done.body())
    else:
        answer(table([("node", "ran", "now"), *done.rows()]))
    if not args.apply:
        note("nothing was changed: say --apply to do it")
    if done.unreachable:
        print_error(together(tuple(done.unreachable.values())))
        return 3
    return 0
