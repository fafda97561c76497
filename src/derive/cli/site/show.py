# SPDX-License-Identifier: Apache-2.0
"""Print the site: its nodes, each path of its cables, and the shapes that it picked.

Edge: environment, files, standard streams.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_root, table, wants_json
from derive.cli.site.places import add_site

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.fabric.site import Site

EXAMPLES = """\
  derive site show
  derive site show --site lab.toml --json
  derive site show --cabling triangle          the example, where there is no site
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_site(parser)
    parser.add_argument(
        "--cabling", choices=("triangle", "ring4"), default="ring4", help="of the example (default: ring4)"
    )


def run(args: argparse.Namespace) -> int:
    """Read the site, or the example where there is none, and print it with all that it leaves out."""
    from derive.fabric.places import Found, find_site, read_site, site_or_example
    from derive.project import load_launching

    path = find_site(os.environ, args.site)
    if path is not None:
        found = Found(site=read_site(path).site, file=str(path))
    else:
        found = site_or_example({}, None, load_launching(project_root(args)), args.cabling)
    if found.note is not None:
        note(f"note: {found.note}")
    if wants_json(args):
        answer_record("site", found.site.name, {"file": found.file, "example": found.site.example, **_body(found.site)})
    else:
        answer(_text(found.site, found.file))
    return 0


def _text(site: Site, file: str) -> str:
    head = [
        ("site", site.name),
        ("file", file),
        ("cabling", site.cabling),
        ("SSH user", site.ssh_user),
        ("folder", site.folder),
        ("models", site.models),
        ("images", site.images),
        *((f"shape of {recipe}", shape) for recipe, shape in site.shapes),
    ]
    nodes = [("rank", "node", "address", "interface", "SSH host", "GID index")]
    nodes += [(str(one.rank), one.name, one.address, one.interface, one.ssh_host, one.gid_index) for one in site.nodes]
    ends = [("cable", "path", "subnet", "node", "port", "RDMA device", "interface", "address")]
    for cable in site.cables:
        for path in cable.paths:
            for side, end in enumerate(path.ends):
                first = side == 0
                name = " - ".join(site.nodes[rank].name for rank in cable.ranks) if first and path.number == 1 else ""
                ends.append(
                    (
                        name,
                        str(path.number) if first else "",
                        path.subnet if first else "",
                        site.nodes[end.rank].name,
                        str(cable.ports[side]),
                        end.device,
                        end.interface,
                        end.address,
                    )
                )
    return "\n\n".join([table(head), table(nodes, right=frozenset({0})), table(ends)])


def _body(site: Site) -> dict[str, Json]:
    from derive.render.site_digest import site_document

    return {**site_document(site), "shapes": dict(site.shapes)}
