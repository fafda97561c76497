# SPDX-License-Identifier: Apache-2.0
"""From the text of a site file to a site: what it leaves out filled in, and everything wrong said at once.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from derive.errors import InputErrors, Problem
from derive.fabric.cabling import (
    NODES,
    PATHS,
    default_address,
    default_device,
    default_interface,
    default_ports,
    default_subnet,
    edges,
)
from derive.fabric.declarations import NODE, SITE
from derive.fabric.rule import SiteInput
from derive.fabric.site import Cable, End, Node, Path, Site
from derive.fabric.site_rules import breaches
from derive.fabric.table import problems as form_problems
from derive.toml import parse_toml
from derive.words import near

FOLDER = "/var/lib/derive"
MODELS = "{home}/.cache/huggingface/hub"
IMAGES = "127.0.0.1:5170/derive"
"""Images come through the head: on each node's loopback."""
GID_INDEX = 3


def load_site(data: bytes, file: str, *, example: bool = False) -> Site:
    """Read a site; ``file`` is what messages call it.

    Raises:
        InputErrors: every problem of the file, each with its key path.
    """
    return load_site_input(data, file, example=example).site


def load_site_input(data: bytes, file: str, *, example: bool = False) -> SiteInput:
    """Read a site as ``load_site`` does, and keep where its cables stand, for whoever has more to say about them."""
    table, problems = parse_toml(data, file)
    if table is None:
        raise InputErrors(problems)
    problems += form_problems(SITE, table, file)
    whole = table if not problems else _mended(table)
    # Which cables there are cannot be said before the nodes are known.
    of_cables = all(_is_right(key, table) for key in ("cabling", "nodes", "cables"))
    if of_cables:
        strangers = list(_stranger_problems(whole, file))
        problems += [*strangers, *_halved_problems(whole, file)]
        of_cables = not strangers
    cables = sorted(_cables(whole), key=lambda one: (one.cable.ranks, one.number)) if of_cables else []
    found = SiteInput(
        site=_site(whole, tuple(one.cable for one in cables), example=example),
        file=file,
        cable_numbers=tuple(one.number for one in cables) if "cables" in whole else None,
    )
    problems += breaches(found, of_cables=of_cables)
    if problems:
        raise InputErrors(problems)
    return found


def _is_right(key: str, table: Mapping[str, Any]) -> bool:
    return key not in table or not any(form_problems(SITE.keys[key], table[key], ""))


def _mended(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of the right form, to judge the rest by: what is wrong is replaced by what breaks no rule."""
    kept = {key: table[key] for key in SITE.keys if key in table and _is_right(key, table)}
    given = table.get("nodes")
    nodes = given if isinstance(given, list) else [None] * NODES["triangle"]
    cabling = next((name for name, count in NODES.items() if count == len(nodes)), "ring4")
    if not isinstance(given, list):
        kept["cabling"] = cabling
    stand_in = {"name": "-", "cabling": cabling, "ssh-user": "-", "home": "/", "interface": "-"}
    return {**stand_in, **kept, "nodes": [_mended_node(rank, node) for rank, node in enumerate(nodes)]}


def _mended_node(rank: int, node: object) -> dict[str, Any]:
    given = node if isinstance(node, Mapping) else {}
    kept = {
        key: given[key] for key in NODE.keys if key in given and not any(form_problems(NODE.keys[key], given[key], ""))
    }
    return {"name": f"-{rank}", "address": f"198.18.0.{rank + 1}", **kept}


def _stranger_problems(table: Mapping[str, Any], file: str) -> Iterator[Problem]:
    names = [node["name"] for node in table["nodes"]]
    for index, cable in enumerate(table.get("cables", ())):
        place = f"{file}: cables[{index}]"
        for side, name in enumerate(cable["between"]):
            if name not in names:
                hint = near(name, names) or f"nodes: {', '.join(names)}"
                yield Problem(where=f"{place}.between[{side}]", message=f"no node is called {name}", hint=hint)
        if cable["between"][0] == cable["between"][1]:
            hint = "a cable joins two machines: name the other one"
            yield Problem(where=f"{place}.between", message=f"both ends are {cable['between'][0]}", hint=hint)


def _halved_problems(table: Mapping[str, Any], file: str) -> Iterator[Problem]:
    for index, cable in enumerate(table.get("cables", ())):
        for number, path in enumerate(cable.get("paths", ())):
            if _is_halved(path):
                there = "subnet" if "subnet" in path else "addresses"
                missing = "addresses" if there == "subnet" else "subnet"
                message = f"{there} without {missing}: both are given, or neither"
                yield Problem(where=f"{file}: cables[{index}].paths[{number}].{missing}", message=message)


def _is_halved(path: Mapping[str, Any]) -> bool:
    return ("subnet" in path) != ("addresses" in path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    cable: Cable
    number: int


def _site(table: Mapping[str, Any], cables: tuple[Cable, ...], *, example: bool) -> Site:
    home = str(table["home"])

    def expanded(text: str) -> str:
        return text.replace("{home}", home)

    return Site(
        name=table["name"],
        cabling=table["cabling"],
        ssh_user=table["ssh-user"],
        home=home,
        folder=expanded(table.get("folder", FOLDER)),
        models=expanded(table.get("models", MODELS)),
        images=table.get("images", IMAGES),
        nodes=tuple(_node(rank, node, table) for rank, node in enumerate(table["nodes"])),
        cables=cables,
        shapes=tuple(sorted(table.get("shapes", {}).items())),
        example=example,
    )


def _node(rank: int, node: Mapping[str, Any], table: Mapping[str, Any]) -> Node:
    return Node(
        name=node["name"],
        rank=rank,
        address=node["address"],
        interface=node.get("interface", table["interface"]),
        ssh_host=node.get("ssh-host", node["name"]),
        gid_index=str(node.get("gid-index", table.get("gid-index", GID_INDEX))),
        traffic_class=str(node["traffic-class"]) if "traffic-class" in node else None,
    )


def _cables(table: Mapping[str, Any]) -> Iterator[_Placed]:
    count = NODES["triangle" if table["cabling"] == "triangle" else "ring4"]
    if "cables" not in table:
        for number, ranks in enumerate(edges(count)):
            yield _Placed(number=number, cable=_cable(ranks, default_ports(ranks, count), None))
        return
    names = [node["name"] for node in table["nodes"]]
    for number, declared in enumerate(table["cables"]):
        first, second = (names.index(name) for name in declared["between"])
        ranks = (min(first, second), max(first, second))
        # Pairs in the file begin with the node that is named first, and here with the lower rank.
        order = (1, 0) if first > second else (0, 1)
        given = declared.get("ports")
        ports = default_ports(ranks, count) if given is None else (given[order[0]], given[order[1]])
        yield _Placed(number=number, cable=_cable(ranks, ports, declared.get("paths"), order))


def _cable(
    ranks: tuple[int, int],
    ports: tuple[int, int],
    paths: list[Mapping[str, Any]] | None,
    order: tuple[int, ...] = (0, 1),
) -> Cable:
    given = [{} for _ in PATHS] if paths is None else paths
    return Cable(
        ranks=ranks,
        ports=ports,
        paths=tuple(_path(number, ranks, ports, path, order) for number, path in enumerate(given, start=1)),
    )


def _path(
    number: int, ranks: tuple[int, int], ports: tuple[int, int], path: Mapping[str, Any], order: tuple[int, ...]
) -> Path:
    usual = min(number, len(PATHS))
    if _is_halved(path):
        path = {key: value for key, value in path.items() if key not in ("subnet", "addresses")}

    def end(side: int) -> End:
        def own(key: str, default: str) -> str:
            return str(path[key][order[side]]) if key in path else default

        return End(
            rank=ranks[side],
            device=own("devices", default_device(ports[side], usual)),
            interface=own("interfaces", default_interface(ports[side], usual)),
            address=own("addresses", default_address(ranks, number, ranks[side])),
        )

    return Path(number=number, subnet=path.get("subnet", default_subnet(ranks, number)), ends=(end(0), end(1)))
