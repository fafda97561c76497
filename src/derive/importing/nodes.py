# SPDX-License-Identifier: Apache-2.0
"""A node map, read: machines in order of rank, and at each which devices lead to which peer.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from derive.canonical import Json
from derive.errors import Problem, expected_got
from derive.importing.account import Account
from derive.words import one_line

_DROPPED = {
    "transfer_host": "only bulk copies by hand used it",
    "mesh_hairpin_queue_size": "no shape forwards through NICs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MapNode:
    """One machine: ``peers`` has the devices that lead to each rank, ``subnets`` and ``interfaces`` what each is on."""

    at: int
    name: str
    rank: int
    address: str
    ssh_host: str | None
    gid_index: int | None
    traffic_class: int | None
    interface: str | None
    peers: Mapping[int, tuple[str, ...]]
    subnets: Mapping[str, str]
    interfaces: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMap:
    """A node map: ``nodes`` in order of rank."""

    file: str
    ssh_user: str
    nodes: tuple[MapNode, ...]

    @property
    def head(self) -> MapNode:
        """The node of rank 0."""
        return self.nodes[0]


@dataclass(slots=True)
class _Fields:
    """One table being read: what is not of the type asked for is a problem, and comes back as None."""

    table: Mapping[str, Json]
    file: str
    path: str
    account: Account
    problems: list[Problem] = field(default_factory=list)

    def text(self, key: str, place: str, *, must: bool = False) -> str | None:
        found = self._of(key, str, "text", place, must=must)
        return found if isinstance(found, str) else None

    def whole(self, key: str, place: str, *, must: bool = False) -> int | None:
        found = self._of(key, int, "a number", place, must=must)
        return found if isinstance(found, int) else None

    def mapping(self, key: str, place: str, *, must: bool = False) -> Mapping[str, Json]:
        found = self._of(key, Mapping, "an object", place, must=must)
        return found if isinstance(found, Mapping) else {}

    def wrong(self, key: str, message: str, expected: object, got: object, hint: str | None = None) -> None:
        where = f"{self.file}: {one_line(f'{self.path}.{key}' if self.path else key)}"
        self.problems.append(Problem(where=where, message=message, detail=expected_got(expected, got), hint=hint))

    def _of(self, key: str, kind: type, expected: str, place: str, *, must: bool) -> object:
        if key not in self.table:
            if must:
                self.wrong(key, "this key is missing", expected, "nothing")
            return None
        self.account.add(f"{self.path}.{key}" if self.path else key, "site", place)
        value = self.table[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            self.wrong(key, f"not {expected}", expected, repr(value))
            return None
        return value


def read_nodes(document: Mapping[str, Json], account: Account) -> tuple[NodeMap | None, list[Problem]]:
    """Read a node map, or say everything that is wrong with it; every key of it is accounted for."""
    top = _Fields(document, account.file, "", account)
    account.dropped("schema_version", "the files that are written have a format of their own")
    user = top.text("ssh_user", "ssh-user", must=True)
    rows = document.get("nodes")
    if not isinstance(rows, list) or not rows:
        top.wrong("nodes", "no nodes", "a list of objects", repr(rows))
        return None, top.problems
    nodes = []
    for at, row in enumerate(rows):
        if isinstance(row, Mapping):
            nodes.append(_node(_Fields(row, account.file, f"nodes[{at}]", account, top.problems), at))
            _close(row, f"nodes[{at}]", account)
        else:
            top.wrong(f"nodes[{at}]", "not an object", "an object", repr(row))
    account.close({key: value for key, value in document.items() if key != "nodes"})
    found = NodeMap(file=account.file, ssh_user=user or "", nodes=tuple(sorted(nodes, key=lambda node: node.rank)))
    top.problems += _problems(found, document)
    return (None if top.problems else found), top.problems


def _node(fields: _Fields, at: int) -> MapNode:
    place = f"nodes[{at}]"
    name = fields.text("name", f"{place}.name", must=True)
    rank = fields.whole("rank", "the order of nodes", must=True)
    fields.account.add(f"{place}.head", "derived", note="the first node is the head")
    ports = fields.mapping("mesh_ports", "cables[].paths[].interfaces")
    return MapNode(
        at=at,
        name=name or f"#{at}",
        rank=at if rank is None else rank,
        address=fields.text("management_ip", f"{place}.address", must=True) or f"#{at}",
        ssh_host=fields.text("ssh_host", f"{place}.ssh-host"),
        gid_index=fields.whole("roce_gid_index", "gid-index"),
        traffic_class=fields.whole("roce_traffic_class", f"{place}.traffic-class"),
        interface=fields.text("management_interface", f"{place}.interface"),
        peers=dict(_peers(fields)),
        subnets=dict(_texts(fields, "roce_subnets", "cables[].paths[].subnet")),
        interfaces={
            device: str(port["netdev"])
            for device, port in ports.items()
            if isinstance(port, Mapping) and "netdev" in port
        },
    )


def _peers(fields: _Fields) -> Iterator[tuple[int, tuple[str, ...]]]:
    key = "roce_peer_hcas"
    for peer, devices in fields.mapping(key, "cables", must=True).items():
        if not (peer.isascii() and peer.isdecimal() and len(peer) == 1):
            fields.wrong(f"{key}.{peer}", "not a rank", "a number", peer)
        elif (
            not isinstance(devices, list) or not 1 <= len(devices) <= 2 or not all(isinstance(d, str) for d in devices)
        ):
            fields.wrong(f"{key}.{peer}", "not the devices that lead to a peer", "1 or 2 names", repr(devices))
        else:
            yield int(peer), tuple(cast("list[str]", devices))


def _texts(fields: _Fields, key: str, place: str) -> Iterator[tuple[str, str]]:
    for name, text in fields.mapping(key, place).items():
        if isinstance(text, str):
            yield name, text
        else:
            fields.wrong(f"{key}.{name}", "not text", "text", repr(text))


def _close(row: Mapping[str, Json], path: str, account: Account) -> None:
    for key, why in _DROPPED.items():
        if key in row:
            account.dropped(f"{path}.{key}", why)
    account.close({f"{path}.{key}": value for key, value in row.items()})


def _problems(found: NodeMap, document: Mapping[str, Json]) -> Iterator[Problem]:
    """Yield what is wrong with the nodes together."""
    where = f"{found.file}: nodes"
    ranks = [node.rank for node in found.nodes]
    if ranks != list(range(len(ranks))):
        detail = expected_got(" ".join(map(str, range(len(ranks)))), " ".join(map(str, ranks)))
        yield Problem(where=where, message="ranks that do not count from 0", detail=detail)
    for what, values in (
        ("names", [node.name for node in found.nodes]),
        ("management_ip", [node.address for node in found.nodes]),
    ):
        if len(set(values)) != len(values):
            detail = expected_got(f"{len(values)} that differ", " ".join(values))
            yield Problem(where=where, message=f"two nodes share one of their {what}", detail=detail)
    rows = cast(
        "list[Mapping[str, Json]]", [row for row in cast("list[Json]", document["nodes"]) if isinstance(row, Mapping)]
    )
    heads = [row.get("rank") for row in rows if row.get("head") is True]
    if heads != [0]:
        detail = expected_got("head true at rank 0 alone", f"at rank {', '.join(map(str, heads)) or 'none'}")
        yield Problem(where=where, message="the head is not the node of rank 0", detail=detail)
