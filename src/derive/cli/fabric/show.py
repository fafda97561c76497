# SPDX-License-Identifier: Apache-2.0
"""Draw a site: machines with their cages, both paths of each cable, and what each end is called.

Edge: the project, the site's file, the terminal, one file.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.colour import wants_colour
from derive.cli.console import answer, answer_record, note, path_text, project_root, wants_json
from derive.cli.options import something
from derive.cli.outputs import answer_beside

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.fabric.site import Site

EXAMPLES = """\
  derive fabric show                     the site, or the example of a ring where there is none
  derive fabric show --cabling triangle  the example of a triangle, where there is no site
  derive fabric show --svg fabric.svg    the same as a picture, light or dark as the reader's screen is
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--site", type=something, metavar="FILE", help="the site's file (default: $DERIVE_SITE, ...)")
    parser.add_argument(
        "--cabling", choices=("triangle", "ring4"), default="ring4", help="which example, where there is no site"
    )
    parser.add_argument("--svg", type=something, metavar="FILE", help="write a picture; - prints it")
    parser.add_argument("--plain", action="store_true", help="no colour, whatever the terminal")


def run(args: argparse.Namespace) -> int:
    """Find the site and draw it."""
    from derive.fabric.places import site_or_example
    from derive.project import load_launching

    say = answer_beside(args, args.svg)
    found = site_or_example(os.environ, args.site, load_launching(project_root(args)), args.cabling)
    if found.note is not None:
        note(f"note: {found.note}")
    if args.svg is not None:
        _write(args.svg, found.site)
    if wants_json(args):
        answer_record("fabric", found.site.name, _body(found.site, args.svg))
    elif args.svg is None:
        from derive.fabric.draw import draw

        answer(draw(found.site, width=shutil.get_terminal_size().columns, colour=wants_colour(args)))
    elif args.svg != "-":
        say(args.svg)
    return 0


def _write(file: str, site: Site) -> None:
    from derive.fabric.draw_svg import draw_svg
    from derive.outfile import open_output

    with open_output(file) as output:
        output.write(draw_svg(site).encode())


def _body(site: Site, picture: str | None) -> dict[str, Json]:
    return {
        "cabling": site.cabling,
        "example": site.example,
        "nodes": [
            {"name": node.name, "rank": node.rank, "address": node.address, "interface": node.interface}
            for node in site.nodes
        ],
        "cables": [
            {
                "ranks": list(cable.ranks),
                "ports": list(cable.ports),
                "paths": [
                    {
                        "number": path.number,
                        "subnet": path.subnet,
                        "ends": [
                            {
                                "rank": end.rank,
                                "device": end.device,
                                "interface": end.interface,
                                "address": end.address,
                            }
                            for end in path.ends
                        ],
                    }
                    for path in cable.paths
                ],
            }
            for cable in site.cables
        ],
        "picture": None if picture is None else path_text(Path(picture)),
    }
