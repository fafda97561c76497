# SPDX-License-Identifier: Apache-2.0
"""Write the site file: from names and addresses, or from the facts of the machines, whose ports are paired into cables.

Edge: environment, files, standard streams.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, path_text, wants_json
from derive.cli.options import something
from derive.cli.site.places import read_all_facts
from derive.errors import InputErrors, Problem

if TYPE_CHECKING:
    import argparse

    from derive.fabric.site import Cabling
    from derive.fabric.site_text import NewSite

_SUFFIX = ".toml"

EXAMPLES = """\
  derive site init --nodes dgx1=192.0.2.11 dgx2=192.0.2.12 dgx3=192.0.2.13 --name lab
  derive site init --cabling ring4            four nodes to be filled in
  derive site init --facts dgx1.json dgx2.json dgx3.json dgx4.json lab.toml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "file",
        nargs="?",
        type=something,
        metavar="FILE",
        help="default: where commands look for it; after --nodes or --facts, a last word that ends in .toml is FILE",
    )
    parser.add_argument("--cabling", choices=("triangle", "ring4"), help="default: as the number of nodes says")
    parser.add_argument(
        "--nodes",
        nargs="+",
        type=something,
        metavar="NAME[=ADDRESS]",
        help="the machines, in the order of the cables, with spaces or commas between; an address for all, or for none",
    )
    parser.add_argument(
        "--facts", nargs="+", type=something, metavar="JSON", help="what derive site facts printed on each machine"
    )
    parser.add_argument("--name", type=something, help="what the site is called (default: as FILE is, or lab)")
    parser.add_argument("--ssh-user", type=something, metavar="USER", help="who logs in (default: this user)")
    parser.add_argument("--home", type=something, metavar="DIR", help="the user's folder there (default: /home/USER)")
    parser.add_argument(
        "--interface", type=something, metavar="NAME", help="of the management network (default: enP7s7, or as found)"
    )


def run(args: argparse.Namespace) -> int:
    """Put a site together, write it, and say what is next."""
    from derive.fabric.places import find_site, user_site
    from derive.fabric.site_text import refuse_odd, site_text
    from derive.fabric.write import PRIVATE, write_new

    named = _file(args) or os.environ.get("DERIVE_SITE")
    path = Path(named) if named else user_site(os.environ)
    args.name = args.name or _name(path)
    new = _new(args)
    refuse_odd(new, from_facts=args.facts is not None)
    text, site = site_text(new, "the new site")
    write_new(path, text, mode=PRIVATE, folders=not named)
    if wants_json(args):
        answer_record("site-init", site.name, {"file": path_text(path), "cabling": site.cabling})
    else:
        answer(str(path))
    to_be_filled_in = args.facts is None and not any("=" in one for one in args.nodes or ())
    for line in _next(path, found=find_site(os.environ, None) == path, to_be_filled_in=to_be_filled_in):
        note(line)
    return 0


def _new(args: argparse.Namespace) -> NewSite:
    from derive.fabric.site_text import new_site

    user = args.ssh_user or os.environ.get("USER") or "operator"
    home = args.home or ("/root" if user == "root" else f"/home/{user}")
    if args.facts is not None:
        if args.nodes is not None or args.cabling is not None:
            hint = "facts say which machines there are, and how they are cabled"
            raise InputErrors.one("--facts goes with neither --nodes nor --cabling", hint=hint)
        return _paired(args, user, home)
    nodes = _nodes(args.nodes)
    count = len(nodes) or (3 if args.cabling == "triangle" else 4)
    cabling: Cabling = args.cabling or ("triangle" if count == 3 else "ring4")
    nodes = nodes or [(f"spark{rank + 1}", None) for rank in range(count)]
    return new_site(args.name, cabling, user, home, args.interface or "enP7s7", nodes)


def _paired(args: argparse.Namespace, user: str, home: str) -> NewSite:
    from derive.fabric.pairing import pair
    from derive.fabric.site_text import paired_site

    found = pair(read_all_facts(args.facts), args.facts, args.interface)
    for one in found.ignored:
        address = f" {one.address}" if one.address is not None else ""
        note(f"left out: {one.node} {one.device} {one.interface}{address}: {one.reason}")
    if found.reordered:
        note(f"in the order of the cables: {', '.join(node.host for node in found.nodes)}")
    return paired_site(args.name, user, home, found)


def _file(args: argparse.Namespace) -> str | None:
    """Return the file that is to be written, which argparse takes for one more node or facts where it stands last."""
    words = args.facts if args.facts is not None else args.nodes
    if not words or not words[-1].endswith(_SUFFIX) or "=" in words[-1]:
        return str(args.file) if args.file is not None else None
    last = words.pop()
    option = "--nodes" if args.facts is None else "--facts"
    if args.file is not None:
        raise InputErrors.one(f"two files: {args.file} and {last}", where=option, hint="name one")
    if not words:
        raise InputErrors.one(f"nothing but a file: {last}", where=option, hint=f"derive site init {last} {option} ...")
    return str(last)


def _name(path: Path) -> str:
    """Return what a site without a name is called: as its file, unless that says no more than that it is one."""
    from derive.fabric.declarations import NAME

    return path.stem if path.stem != "site" and NAME.accepts(path.stem) else "lab"


def _nodes(words: list[str] | None) -> list[tuple[str, str | None]]:
    """Return names and addresses; none where nobody named a node.

    Raises:
        InputErrors: for each name that is one of a file, and where some nodes have an address and some have none.
    """
    if words is None:
        return []
    nodes = [_node(text) for word in words for text in word.split(",") if text]
    hint = "put the file first: derive site init FILE --nodes ..."
    problems = [
        Problem(where="--nodes", message=f"the name of a file, and of no machine: {name!r}", hint=hint)
        for name, _ in nodes
        if "/" in name or name.endswith(_SUFFIX)
    ]
    without = [name for name, address in nodes if address is None]
    if not problems and 0 < len(without) < len(nodes):
        message = f"an address for some nodes, and none for {', '.join(without)}"
        problems.append(Problem(where="--nodes", message=message, hint="write NAME=ADDRESS for each node, or for none"))
    if not nodes:
        problems.append(Problem(where="--nodes", message="names no node", hint="write NAME=ADDRESS for each node"))
    if problems:
        raise InputErrors(problems)
    return nodes


def _node(text: str) -> tuple[str, str | None]:
    name, separator, address = text.partition("=")
    return name, address if separator else None


def _next(path: Path, *, found: bool, to_be_filled_in: bool) -> Iterator[str]:
    option = "" if found else f" --site {path}"
    if to_be_filled_in:
        yield f"next: put the machines' names and addresses into {path}, then: derive site check{option}"
    else:
        yield f"next: derive site check{option}, then: derive site shape NAME{option} --apply"
