# SPDX-License-Identifier: Apache-2.0
"""Say which release each node runs, whether it is as it should be, who deploys, and what to do next.

Edge: the site's file, SSH, standard streams. Changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

from derive.cli.at_site import NO_SERVICE, add_site, again_of, services_at, site_of, ssh_of
from derive.cli.console import answer, answer_record, note, wants_json
from derive.cli.options import something

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from derive.deploy.look import Lookout
    from derive.deploy.status import Status
    from derive.fabric.site import Site

EXAMPLES = """\
  derive status                 every service of the site
  derive status probe
  derive status --watch         again and again, whenever something changes
  derive status --json
"""

_UNKNOWN = 3
_CLEAR = "\x1b[H\x1b[2J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("service", nargs="?", type=something, metavar="SERVICE", help="one alone (default: all)")
    add_site(parser)
    parser.add_argument("--watch", action="store_true", help="go on until Ctrl-C, and say what changes")


def run(args: argparse.Namespace) -> int:
    """Look and answer: exit 1 where something is amiss, 3 where a node could not be asked and nothing else is."""
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from derive.deploy.look import lookout

    site = site_of(args)
    async with lookout(site, ssh_of()) as nodes:
        found = await _look(args, nodes, site)
        _answer(args, found)
        if not found:
            # Where a service is seen, its rows say so: here nothing else does.
            for name, error in nodes.troubles.items():
                note(f"{name} cannot be asked: {error.problems()[0].message}")
        while args.watch:
            await asyncio.sleep(2)
            before, found = found, await _look(args, nodes, site)
            if _text(found) != _text(before):
                _answer(args, found)
        lost = bool(nodes.troubles)
    return _code(found) or (_UNKNOWN if lost and not found else 0)


async def _look(args: argparse.Namespace, nodes: Lookout, site: Site) -> tuple[Status, ...]:
    from derive.deploy.services import chosen
    from derive.deploy.status import status

    services, again = chosen(args.service, await services_at(nodes, site)), again_of(args)
    return tuple([status(service, await nodes.look(service), again=again) for service in services])


def _code(found: Sequence[Status]) -> int:
    if all(one.is_well for one in found):
        return 0
    return 1 if any(one.is_amiss for one in found) else _UNKNOWN


def _answer(args: argparse.Namespace, found: Sequence[Status]) -> None:
    if wants_json(args):
        body = {"services": [one.document() for one in found]}
        if args.watch:
            from derive.records.model import record

            answer(json.dumps(record("status", args.service or "site", body), ensure_ascii=False))
        else:
            answer_record("status", args.service or "site", body)
        return
    if args.watch and sys.stdout is not None and sys.stdout.isatty():
        answer(_CLEAR + _text(found))
    elif found:
        answer(_text(found) + ("\n" if args.watch else ""))
    if not found:
        note(NO_SERVICE)


def _text(found: Sequence[Status]) -> str:
    from derive.deploy.status import status_text

    return "\n\n\n".join(status_text(one) for one in found)
