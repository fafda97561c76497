# SPDX-License-Identifier: Apache-2.0
"""What one machine says of its network: interfaces with their addresses, RDMA devices with their tables of addresses.

Core: no IO. Standard library only.

Facts are gathered on each machine, and judged or paired on another: they travel as records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Interface, IPv6Address
from typing import TYPE_CHECKING, Any

from derive.errors import InputErrors, Problem, expected_got
from derive.fabric.declarations import BYTE, is_address
from derive.fabric.table import Rows, Spec, Table
from derive.fabric.table import problems as form_problems
from derive.recipes.forms import SWITCH, TEXT, Form
from derive.words import LAST_S

if TYPE_CHECKING:
    from derive.canonical import Json

KIND = "site-facts"
ROCE_V2 = "RoCE v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """A network interface. ``mtu`` in bytes; ``carrier`` whether something answers at the other end, None: unknown.

    ``addresses`` are IPv4 addresses with the length of their prefix, as in ``10.12.1.1/24``.
    """

    name: str
    mtu: int | None
    carrier: bool | None
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gid:
    """One entry of a device's table: its index, its type as the kernel writes it, and the address in eight groups."""

    index: int
    type: str
    gid: str

    @property
    def ipv4(self) -> str | None:
        """The IPv4 address that this is, or None where it is none or of an older type."""
        try:
            mapped = IPv6Address(self.gid).ipv4_mapped
        except AddressValueError:
            return None
        return str(mapped) if mapped is not None and self.type == ROCE_V2 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """An RDMA device, and the network interfaces that are the same port."""

    name: str
    interfaces: tuple[str, ...]
    gids: tuple[Gid, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What one machine says; ``unread`` are the places that could not be read, each with the reason.

    ``gathered_s`` is when, in seconds since 1970 by that machine's clock; None where it does not say.
    """

    host: str
    interfaces: tuple[Interface, ...]
    devices: tuple[Device, ...]
    unread: tuple[str, ...] = ()
    gathered_s: int | None = None

    def interface(self, name: str) -> Interface | None:
        """Return an interface by name."""
        return next((one for one in self.interfaces if one.name == name), None)

    def device(self, name: str) -> Device | None:
        """Return an RDMA device by name."""
        return next((one for one in self.devices if one.name == name), None)

    def body(self) -> dict[str, Json]:
        """Return them as the body of a record."""
        return {
            "host": self.host,
            "interfaces": [
                {"name": one.name, "mtu": one.mtu, "carrier": one.carrier, "addresses": list(one.addresses)}
                for one in self.interfaces
            ],
            "devices": [
                {
                    "name": one.name,
                    "interfaces": list(one.interfaces),
                    "gids": [{"index": gid.index, "type": gid.type, "gid": gid.gid} for gid in one.gids],
                }
                for one in self.devices
            ],
            "unread": list(self.unread),
            **({} if self.gathered_s is None else {"gathered_s": self.gathered_s}),
        }


def _or_unknown(form: Form) -> Form:
    return Form(expects=f"{form.expects}, or null", accepts=lambda value: value is None or form.accepts(value))


def _is_interface_address(value: Json) -> bool:
    if not isinstance(value, str) or not is_address(value.partition("/")[0]):
        return False
    try:
        return IPv4Interface(value).with_prefixlen == value
    except ValueError:
        return False


_MTU = Form(expects="a number of bytes", accepts=lambda value: isinstance(value, int) and value is not True)
_SECONDS = Form(
    expects="whole seconds since 1970, up to the year 9999",
    accepts=lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LAST_S,
)
_ADDRESS = Form(expects="an IPv4 address with its prefix, as in 10.12.1.1/24", accepts=_is_interface_address)
_GID = Table(keys={"index": BYTE, "type": TEXT, "gid": TEXT}, required=frozenset({"index", "type", "gid"}))
_INTERFACE: Mapping[str, Spec] = {
    "name": TEXT,
    "mtu": _or_unknown(_MTU),
    "carrier": _or_unknown(SWITCH),
    "addresses": Rows(of=_ADDRESS),
}
_DEVICE: Mapping[str, Spec] = {"name": TEXT, "interfaces": Rows(of=TEXT), "gids": Rows(of=_GID)}
_BODY: Mapping[str, Spec] = {
    "host": TEXT,
    "interfaces": Rows(of=Table(keys=_INTERFACE, required=frozenset(_INTERFACE))),
    "devices": Rows(of=Table(keys=_DEVICE, required=frozenset(_DEVICE))),
    "unread": Rows(of=TEXT),
    "gathered_s": _SECONDS,
}
_RECORD = Table(
    keys={
        "derive": Form(expects="record/1", accepts=lambda value: value == "record/1"),
        "kind": Form(expects=KIND, accepts=lambda value: value == KIND),
        "subject": TEXT,
        "previous": _or_unknown(TEXT),
        "body": Table(keys=_BODY, required=frozenset(_BODY) - {"gathered_s"}),
    },
    required=frozenset({"derive", "kind", "body"}),
)


def read_facts(data: bytes, file: str) -> NodeFacts:
    """Read the record of one machine; ``file`` is what messages call it.

    Raises:
        InputErrors: when it is no such record: every problem of it.
    """
    try:
        record: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        hint = "write it on that machine: derive site facts"
        raise InputErrors.one(f"not valid JSON: {error}", where=file, hint=hint) from None
    problems = list(form_problems(_RECORD, record, file))
    if problems:
        raise InputErrors(problems)
    body = record["body"]
    problems += _names_twice(body, file)
    if record.get("subject", body["host"]) != body["host"]:
        detail, hint = expected_got(body["host"], record["subject"]), "gather them anew: derive site facts > FILE"
        message = "facts of one machine under the name of another"
        problems.append(Problem(where=f"{file}: subject", message=message, detail=detail, hint=hint))
    if problems:
        raise InputErrors(problems)
    return NodeFacts(
        host=body["host"],
        interfaces=tuple(
            Interface(name=one["name"], mtu=one["mtu"], carrier=one["carrier"], addresses=tuple(one["addresses"]))
            for one in body["interfaces"]
        ),
        devices=tuple(
            Device(
                name=one["name"],
                interfaces=tuple(one["interfaces"]),
                gids=tuple(Gid(index=gid["index"], type=gid["type"], gid=gid["gid"]) for gid in one["gids"]),
            )
            for one in body["devices"]
        ),
        unread=tuple(body["unread"]),
        gathered_s=body.get("gathered_s"),
    )


def _names_twice(body: Mapping[str, Any], file: str) -> Iterator[Problem]:
    for key in ("interfaces", "devices"):
        names = [one["name"] for one in body[key]]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Problem(where=f"{file}: body.{key}", message=f"{name} is there twice")
