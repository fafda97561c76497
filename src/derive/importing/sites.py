# SPDX-License-Identifier: Apache-2.0
"""A site from a node map and from what cluster files said of the place they are for.

Core: no IO.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from derive.canonical import Json
from derive.errors import Problem, expected_got
from derive.importing.cables import cables
from derive.importing.cluster import Draft
from derive.importing.nodes import NodeMap

_USUAL_GID = 3
_GID = re.compile(r"[0-9]{1,9}")


def site_document(
    nodes: NodeMap, drafts: Sequence[Draft], recipe: str, name: str
) -> tuple[dict[str, Json], list[str], list[Problem]]:
    """Return a site, what of it is assumed, and what is wrong; ``drafts`` are the shapes that run there."""
    problems: list[Problem] = []
    home = _alike(drafts, "home", problems)
    interface = _alike(drafts, "interface", problems)
    head = _alike(drafts, "head", problems)
    if head not in (None, nodes.head.address):
        where = f"{drafts[0].file}: distributed.master_addr"
        detail = expected_got(f"{nodes.head.address}, of {nodes.head.name}", head)
        problems.append(Problem(where=where, message="not the address of the node of rank 0", detail=detail))
    found_cables, assumed, wrong = cables(nodes)
    interfaces = Counter(node.interface for node in nodes.nodes if node.interface)
    usual = interface or next(iter(interfaces), None)
    if usual is None:
        hint = "say management_interface of a node, or NCCL_SOCKET_IFNAME in the cluster file"
        problems.append(Problem(where=nodes.file, message="nothing says the management interface", hint=hint))
    if home is None:
        home = f"/home/{nodes.ssh_user}"
        assumed = [f"the home folder {home} is assumed, by the user's name", *assumed]
    gid = _gid(nodes, drafts)
    document: dict[str, Json] = {
        "format": 1,
        "name": name,
        "cabling": drafts[0].cabling,
        "ssh-user": nodes.ssh_user,
        "home": home,
        "interface": usual,
        "gid-index": gid,
        "shapes": {recipe: drafts[0].name},
        "nodes": [_node(nodes, at, usual, gid) for at in range(len(nodes.nodes))],
    }
    if models := _alike(drafts, "models", problems):
        document["models"] = models
    if found_cables:
        document["cables"] = found_cables
    return document, assumed, [*problems, *wrong]


def _node(nodes: NodeMap, at: int, interface: str | None, gid: int) -> Mapping[str, Json]:
    node = nodes.nodes[at]
    found: dict[str, Json] = {"name": node.name, "address": node.address}
    if node.ssh_host not in (None, node.name):
        found["ssh-host"] = node.ssh_host
    if node.interface not in (None, interface):
        found["interface"] = node.interface
    if node.gid_index not in (None, gid):
        found["gid-index"] = node.gid_index
    if node.traffic_class is not None:
        found["traffic-class"] = node.traffic_class
    return found


def _gid(nodes: NodeMap, drafts: Sequence[Draft]) -> int:
    """Return the GID index of most nodes: the map's own before the cluster files' variable."""
    said = Counter(node.gid_index for node in nodes.nodes if node.gid_index is not None)
    if said:
        return said.most_common(1)[0][0]
    variable = next((draft.site["gid-index"] for draft in drafts if "gid-index" in draft.site), "")
    return int(variable) if _GID.fullmatch(variable) else _USUAL_GID


def _alike(drafts: Sequence[Draft], key: str, problems: list[Problem]) -> str | None:
    """Return what every shape of one site says of it; a problem where two differ."""
    said = {draft.site[key]: draft for draft in reversed(drafts) if key in draft.site}
    if len(said) > 1:
        detail = [f"{draft.name}  {value}" for value, draft in said.items()]
        message = f"the shapes differ in what one site says: {key}"
        problems.append(Problem(where=drafts[0].file, message=message, detail=tuple(detail)))
    return next(iter(said), None)
