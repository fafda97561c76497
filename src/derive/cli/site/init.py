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
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse

    from derive.fabric.site import Cabling, Site
    from derive.fabric.site_text import NewSite

EXAMPLES = """\
  derive site init --nodes dgx1=192.0.2.11 dgx2=192.0.2.12 dgx3=192.0.2.13
  derive site init --cabling ring4            four nodes to be filled in
  derive site init --facts dgx1.json dgx2.json dgx3.json dgx4.json lab.toml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", nargs="?", type=something, metavar="FILE", help="default: where commands look for it")
    parser.add_argument("--cabling", choices=("triangle", "ring4"), help="default: as the number of nodes says")
    parser.add_argument(
        "--nodes", nargs="+", type=something, metavar="NAME[=ADDRESS]", help="the machines, in the order of the cables"
    )
    parser.add_argument(
        "--facts", nargs="+", type=something, metavar="JSON", help="what derive site facts printed on each machine"
    )
    parser.add_argument("--name", type=something, default="site", help="what the site is called (default: site)")
    parser.add_argument("--ssh-user", type=something, metavar="USER", help="who logs in (default: this user)")
    parser.add_argument("--home", type=something, metavar="DIR", help="the user's folder there (default: /home/USER)")
    parser.add_argument(
        "--interface", type=something, metavar="NAME", help="of the management network (default: enP7s7, or as found)"
    )


def run(args: argparse.Namespace) -> int:
    """Put a site together, write it, and say what is next."""
    from derive.fabric.places import find_site, user_site
    from derive.fabric.site_text import site_text
    from derive.fabric.write import PRIVATE, write_new

    named = args.file or os.environ.get("DERIVE_SITE")
    path = Path(named) if named else user_site(os.environ)
    text, site = site_text(_new(args), "the new site")
    write_new(path, text, mode=PRIVATE, folders=not named)
    if wants_json(args):
        answer_record("site-init", site.name, {"file": path_text(path), "cabling": site.cabling})
    else:
        answer(str(path))
    for line in _next(site, path, found=find_site(os.environ, None) == path):
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
    count = len(args.nodes or ()) or (3 if args.cabling == "triangle" else 4)
    cabling: Cabling = args.cabling or ("triangle" if count == 3 else "ring4")
    nodes = [_node(text) for text in args.nodes or [f"spark{rank + 1}" for rank in range(count)]]
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


def _node(text: str) -> tuple[str, str | None]:
    name, separator, address = text.partition("=")
    return name, address if separator else None


def _next(site: Site, path: Path, *, found: bool) -> Iterator[str]:
    from derive.fabric.site_text import is_documentation

    option = "" if found else f" --site {path}"
    if any(is_documentation(node.address) for node in site.nodes):
        yield f"next: put the machines' names and addresses into {path}, then: derive site check{option}"
    else:
        yield f"next: derive site check{option}, then: derive site shape NAME{option} --apply"
