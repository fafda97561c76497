# SPDX-License-Identifier: Apache-2.0
"""The site that a cabling has before it has a place: each value is the key of a site file that will say it.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from derive.fabric.cabling import NODES, PATHS, default_ports, edges
from derive.fabric.site import Cable, Cabling, End, Node, Path, Site


def abstract_site(cabling: Cabling) -> Site:
    """Return the abstract site of a cabling, whose values read ``${site:nodes[0].address}``."""
    count = NODES[cabling]
    nodes = tuple(
        Node(
            name=_said(f"nodes[{rank}].name"),
            rank=rank,
            address=_said(f"nodes[{rank}].address"),
            interface=_said(f"nodes[{rank}].interface"),
            ssh_host=_said(f"nodes[{rank}].ssh-host"),
            gid_index=_said(f"nodes[{rank}].gid-index"),
        )
        for rank in range(count)
    )
    return Site(
        name=_said("name"),
        cabling=cabling,
        ssh_user=_said("ssh-user"),
        home=_said("home"),
        folder=_said("folder"),
        models=_said("models"),
        images=_said("images"),
        nodes=nodes,
        cables=tuple(
            Cable(
                ranks=ranks,
                ports=default_ports(ranks, count),
                paths=tuple(_path(index, ranks, number) for number in PATHS),
            )
            for index, ranks in enumerate(edges(count))
        ),
    )


def is_abstract(site: Site) -> bool:
    """Say whether a site is one of these."""
    return site.name.startswith("${site:")


def _path(index: int, ranks: tuple[int, int], number: int) -> Path:
    place = f"cables[{index}].paths[{number - 1}]"

    def end(side: int) -> End:
        return End(
            rank=ranks[side],
            device=_said(f"{place}.devices[{side}]"),
            interface=_said(f"{place}.interfaces[{side}]"),
            address=_said(f"{place}.addresses[{side}]"),
        )

    return Path(number=number, subnet=_said(f"{place}.subnet"), ends=(end(0), end(1)))


def _said(key: str) -> str:
    return f"${{site:{key}}}"
