# SPDX-License-Identifier: Apache-2.0
"""Print what a node's container wrote, as it writes it where asked; or what was kept of one that failed.

Edge: the site's file, SSH, a node's engine, what this machine keeps of the site, standard streams.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from derive.cli.at_site import add_site, kept_of, only_one, services_at, site_of, ssh_of
from derive.cli.console import answer_record, note, wants_json
from derive.cli.options import something
from derive.errors import InputErrors, Missing

if TYPE_CHECKING:
    import argparse

    import docker

    from derive.fabric.site import Site

EXAMPLES = """\
  derive logs spark2                  the last 200 lines
  derive logs spark2 --follow         go on as it writes, until it ends or Ctrl-C
  derive logs spark1 --tail 5000 --timestamps
  derive logs spark2 --former         what was kept of the last failure there
"""

_TAIL = 200


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
    """Print the log."""
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
    from derive.deploy.engines import logs
    from derive.deploy.look import lookout

    async with lookout(site, ssh_of(), only=None if args.service is None else [args.node]) as nodes:
        service = args.service or only_one(None, await services_at(nodes, site))
        node = nodes.node(args.node)
        await node.connect()
        client = await node.open_engine()
        tail = None if args.tail == 0 else args.tail or _TAIL
        if args.follow:
            from derive.deploy.look import following

            async for part in following(client, service, tail=tail, timestamps=args.timestamps):
                _print(part)
            await _say_end(client, service)
            return 0
        data = await asyncio.to_thread(logs, client, service, tail=tail, timestamps=args.timestamps)
    _answer(args, service, data)
    return 0


async def _say_end(client: docker.DockerClient, service: str) -> None:
    from derive.deploy.engines import containers
    from derive.deploy.incident import exit_text

    for one in await asyncio.to_thread(containers, client, [service]):
        if one.state != "running":
            note(f"{service}: {exit_text(one)}")


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
