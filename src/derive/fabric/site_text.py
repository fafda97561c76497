# SPDX-License-Identifier: Apache-2.0
"""The text of a new site file, for people to go on editing.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from derive.errors import InputErrors, Problem, expected_got
from derive.fabric.cabling import NODES
from derive.fabric.declarations import ADDRESS, HOME, INTERFACE, NAME, USER
from derive.fabric.load import load_site
from derive.fabric.pairing import Paired
from derive.fabric.site import Cable, Cabling, Site
from derive.recipes.check import shown
from derive.toml_text import toml_line

DOCUMENTATION = ("192.0.2.", "198.51.100.", "203.0.113.")
"""Beginnings of addresses that are for documentation, and no machine's (RFC 5737)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNode:
    """A node of a new site; ``interface`` and ``gid_index`` are None where they are the site's."""

    name: str
    address: str
    interface: str | None = None
    gid_index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSite:
    """What a new site file says; ``cables`` is empty where they are the usual ones."""

    name: str
    cabling: Cabling
    ssh_user: str
    home: str
    interface: str
    gid_index: int
    nodes: tuple[NewNode, ...]
    cables: tuple[Cable, ...] = ()


def new_site(
    name: str, cabling: Cabling, ssh_user: str, home: str, interface: str, nodes: Sequence[tuple[str, str | None]]
) -> NewSite:
    """Return a site of usual cables; a node without an address gets one of documentation, to be replaced."""
    return NewSite(
        name=name,
        cabling=cabling,
        ssh_user=ssh_user,
        home=home,
        interface=interface,
        gid_index=3,
        nodes=tuple(
            NewNode(name=node, address=address or f"{DOCUMENTATION[0]}{11 + rank}")
            for rank, (node, address) in enumerate(nodes)
        ),
    )


def paired_site(name: str, ssh_user: str, home: str, found: Paired) -> NewSite:
    """Return the site that facts of machines come to."""
    interfaces = [one.interface for one in found.management]
    interface = max(interfaces, key=interfaces.count)
    indices = [index for index in found.gid_indices if index is not None]
    gid_index = max(indices, key=indices.count) if indices else 3
    return NewSite(
        name=name,
        cabling=next((one for one, count in NODES.items() if count == len(found.nodes)), "ring4"),
        ssh_user=ssh_user,
        home=home,
        interface=interface,
        gid_index=gid_index,
        nodes=tuple(
            NewNode(
                name=node.host,
                address=own.address,
                interface=None if own.interface == interface else own.interface,
                gid_index=None if index in (None, gid_index) else index,
            )
            for node, own, index in zip(found.nodes, found.management, found.gid_indices, strict=True)
        ),
        cables=found.cables,
    )


def refuse_odd(new: NewSite, *, from_facts: bool = False) -> None:
    """Refuse what no site may say, by the option of ``derive site init`` that said it.

    Raises:
        InputErrors: with every name, address and folder that is of another form.
    """
    nodes, interface = ("--facts", "--facts") if from_facts else ("--nodes", "--interface")
    given = [("--name", NAME, new.name), ("--ssh-user", USER, new.ssh_user), (interface, INTERFACE, new.interface)]
    if new.home != f"/home/{new.ssh_user}":
        given.append(("--home", HOME, new.home))
    for node in new.nodes:
        given += [(nodes, NAME, node.name), (nodes, ADDRESS, node.address)]
    problems = [
        Problem(where=option, message="nothing that a site can say", detail=expected_got(form.expects, shown(value)))
        for option, form, value in given
        if not form.accepts(value)
    ]
    if problems:
        raise InputErrors(problems)


def site_text(new: NewSite, file: str) -> tuple[str, Site]:
    """Return the text, and the site that it reads as; cables are left out where they are the usual ones.

    Raises:
        InputErrors: when what is to be written is no sound site, by the key paths that it would have.
    """
    if new.cables:
        text = _text(new)
        whole = load_site(text.encode(), file)
        short = _text(new, with_cables=False)
        if load_site(short.encode(), file).cables != whole.cables:
            return text, whole
    text = _text(new, with_cables=False)
    return text, load_site(text.encode(), file)


def is_documentation(address: str) -> bool:
    """Say whether an address is one of documentation."""
    return address.startswith(DOCUMENTATION)


def _text(new: NewSite, *, with_cables: bool = True) -> str:
    return "\n".join([*_head(new), *_nodes(new), *(_cables(new) if with_cables else ())]) + "\n"


def _head(new: NewSite) -> Iterator[str]:
    yield "# A site: its machines, and the cables between them. It belongs to this place, and into no repository."
    yield "# Every key is explained on docs/fabric.md."
    yield ""
    yield "format = 1"
    yield toml_line("name", new.name)
    yield toml_line("cabling", new.cabling)
    yield toml_line("ssh-user", new.ssh_user)
    yield toml_line("home", new.home)
    yield toml_line("interface", new.interface).ljust(35) + " # of the management network"
    yield toml_line("gid-index", new.gid_index).ljust(35) + " # of the RoCE v2 address in each device's table"
    yield ""
    round_ = "ring" if new.cabling == "ring4" else "triangle"
    yield f"# In order of rank, as one meets them going round the {round_}: the first is the head."


def _nodes(new: NewSite) -> Iterator[str]:
    for node in new.nodes:
        yield "[[nodes]]"
        yield toml_line("name", node.name)
        yield toml_line("address", node.address)
        if node.interface is not None:
            yield toml_line("interface", node.interface)
        if node.gid_index is not None:
            yield toml_line("gid-index", node.gid_index)
        yield ""


def _cables(new: NewSite) -> Iterator[str]:
    names = [node.name for node in new.nodes]
    for cable in new.cables:
        yield "[[cables]]"
        yield toml_line("between", [names[rank] for rank in cable.ranks])
        yield toml_line("ports", list(cable.ports))
        for path in cable.paths:
            yield "[[cables.paths]]"
            yield toml_line("subnet", path.subnet)
            for key in ("device", "interface", "address"):
                plural = "addresses" if key == "address" else f"{key}s"
                yield toml_line(plural, [str(getattr(end, key)) for end in path.ends])
        yield ""
