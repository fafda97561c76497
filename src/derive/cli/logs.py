# SPDX-License-Identifier: Apache-2.0
"""Print what a node's container wrote, as it writes it where asked; or what was kept of one that failed.

Edge: the site's file, SSH, a node's engine, what this machine keeps of the site, standard streams.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from derive.cli.at_site import add_site, again_of, kept_of, services_at, site_of, ssh_of
from derive.cli.console import answer_record, note, wants_json
from derive.cli.options import something
from derive.errors import DeriveError, InputErrors, Missing

if TYPE_CHECKING:
    import argparse

    from derive.deploy.look import Lookout
    from derive.deploy.model import Container
    from derive.deploy.node_errors import ConnectionLost
    from derive.deploy.remote import Node
    from derive.fabric.site import Site

EXAMPLES = """\
  derive logs spark2                  the last 200 lines
  derive logs spark2 --follow         go on as it writes, until it ends or Ctrl-C
  derive logs spark1 --tail 5000 --timestamps
  derive logs spark2 --former         what was kept of the last failure there
"""

_TAIL = 200
_TRIES, _PAUSE_S = 12, 0.25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("node", type=something, metavar="NODE", help="which node's container")
    parser.add_argument("--service", type=something, metavar="NAME", help="which service (default: the only one)")
    add_site(parser)
    parser.add_argument(
        "--tail", type=_lines, metavar="N", help=f"the last N lines (default: {_TAIL}; all: all of them)"
    )
    parser.add_argument("--timestamps", action="store_true", help="with the engine's time before each line")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--follow", action="store_true", help="go on until the container ends, or Ctrl-C")
    which.add_argument("--former", action="store_true", help="what was kept here of the last failure of that node")


def run(args: argparse.Namespace) -> int:
    """Print the log: exit 3 where it broke off before the container's end."""
    site = site_of(args)
    known = [node.name for node in site.nodes]
    if args.node not in known:
        hint = f"there is {', '.join(known)}"
        raise InputErrors.one(f"no node of {site.name} is called {args.node!r}", hint=hint)
    if args.follow and wants_json(args):
        raise InputErrors.one("--follow and --json", hint="a record is whole: leave one of them out")
    if args.former:
        return _former(args, site)
    return asyncio.run(_now(args, site))


def _former(args: argparse.Namespace, site: Site) -> int:
    kept = kept_of(site)
    path = kept.newest_log(args.node, args.service)
    if path is None:
        raise Missing(f"no log of {args.node} was kept", hint=f"kept are those of failures, in {kept.folder}/logs")
    note(f"kept: {path}")
    data = path.read_bytes()
    _answer(args, str(path), data if args.tail == 0 else _last(data, args.tail or _TAIL))
    return 0


async def _now(args: argparse.Namespace, site: Site) -> int:
    from derive.deploy.engines import containers, logs
    from derive.deploy.look import lookout

    async with lookout(site, ssh_of(), only=None if args.service is None else [args.node]) as nodes:
        node = nodes.node(args.node)
        await node.connect()
        service = await _service(args, nodes, site)
        found = await node.ask(containers, [service])
        if not found:
            hint = f"what the nodes run: {again_of(args).command('derive status')}"
            raise Missing(f"{args.node} has no container of {service}", hint=hint)
        tail = None if args.tail == 0 else args.tail or _TAIL
        if args.follow:
            await _follow(args, node, found[0], tail)
            return 0
        data = await node.ask(logs, service, tail=tail, timestamps=args.timestamps)
    _answer(args, service, data)
    return 0


async def _service(args: argparse.Namespace, nodes: Lookout, site: Site) -> str:
    """Return which service is meant; all nodes are asked only where the one does not know it."""
    from derive.deploy.look import lookout
    from derive.deploy.services import only_one

    if args.service is None:
        return only_one(None, await services_at(nodes, site))
    if args.service in await nodes.services():
        return str(args.service)
    async with lookout(site, ssh_of()) as every:
        return only_one(args.service, await services_at(every, site))


async def _follow(args: argparse.Namespace, node: Node, was: Container, tail: int | None) -> None:
    """Print what a container writes until it ends, and say how it did.

    Raises:
        ConnectionLost: when it is the connection that ended.
    """
    from derive.deploy.engines import containers
    from derive.deploy.look import following
    from derive.deploy.node_errors import NodeError

    client, number, service = await node.open_engine(), node.connection_number, was.name
    again = again_of(args).command(f"derive logs {args.node} --follow")
    try:
        async for part in following(client, service, tail=tail, timestamps=args.timestamps):
            _print(part)
    except DeriveError as error:
        if node.connection_number == number:
            raise
        raise lost(node.name, service, again) from error
    try:
        # The engine ends a log a moment before it takes the container for ended.
        for _ in range(_TRIES):
            found = await node.ask(containers, [service])
            said = end_of(was, found[0] if found else None)
            if said is not None:
                note(f"{service}: {said}")
                return
            await asyncio.sleep(_PAUSE_S)
    except NodeError as error:
        raise lost(node.name, service, again) from error
    raise lost(node.name, service, again, "it runs on")


def lost(node: str, service: str, again: str, known: str = "whether it goes on is not known") -> ConnectionLost:
    """Return the error of a log that broke off while, as far as is known, its container goes on."""
    from derive.deploy.node_errors import ConnectionLost

    message = f"the connection to the log of {service} was lost; {known}"
    return ConnectionLost(message, node=node, hint=f"follow it again: {again}")


def end_of(was: Container, now: Container | None) -> str | None:
    """Say how a container ended whose log was followed; None where it goes on. ``now`` is what has its name."""
    from derive.deploy.incident import exit_text
    from derive.deploy.situation import UP

    if now is None:
        return "the container was removed"
    if now.id != was.id:
        return "the container was removed, and another has its name now"
    if now.state not in UP:
        return f"the container ended: {exit_text(now)}"
    return None if now.started == was.started else "the container ended, and was started again"


def _answer(args: argparse.Namespace, what: str, data: bytes) -> None:
    if wants_json(args):
        lines = data.decode("utf-8", "backslashreplace").splitlines()
        answer_record("logs", args.node, {"node": args.node, "of": what, "lines": lines})
    elif data:
        _print(data)
    else:
        note(f"nothing was written yet: {what} on {args.node}")


def _print(data: bytes) -> None:
    """Print bytes as they came: they are another program's, and may be of any encoding."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _last(data: bytes, lines: int) -> bytes:
    return b"".join(data.splitlines(keepends=True)[-lines:])


def _lines(text: str) -> int:
    """Take a number of lines; ``all`` is 0."""
    import argparse

    if text == "all":
        return 0
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"not a whole number above 0, nor all: {text!r}")
    return int(text)
