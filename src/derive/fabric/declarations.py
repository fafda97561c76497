# SPDX-License-Identifier: Apache-2.0
"""Which keys site files and the files of ``fabric/`` have, and what each holds. They are explained on docs/fabric.md.

Core: no IO. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from derive.fabric.site import is_loopback
from derive.fabric.table import Each, Rows, Spec, Table
from derive.recipes.forms import PROSE, SWITCH, TEXT, VALUE, VARIABLE, Form, between, one_of, pattern

if TYPE_CHECKING:
    from derive.canonical import Json

_REGISTRY = re.compile(
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)(:(?P<port>[0-9]{1,5}))?(/[a-z0-9]+([._-][a-z0-9]+)*)*", re.ASCII
)
_FOLDER = re.compile(r"(\{home\})?(/[A-Za-z0-9._+@-]+)+")


def is_address(value: Json) -> bool:
    """Say whether a value is an IPv4 address in its usual form."""
    try:
        return isinstance(value, str) and str(IPv4Address(value)) == value
    except ValueError:
        return False


def _is_subnet(value: Json) -> bool:
    address, slash, length = value.partition("/") if isinstance(value, str) else ("", "", "")
    return is_address(address) and slash == "/" and length.isdecimal()


def _is_folder(value: Json) -> bool:
    whole = isinstance(value, str) and _FOLDER.fullmatch(value) is not None
    return whole and not {".", ".."} & set(str(value).split("/"))


def _is_registry(value: Json) -> bool:
    found = _REGISTRY.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return False
    host, port = found["host"], found["port"]
    if is_loopback(host):
        # One of the machine's own services must never be taken for what a deploy left behind.
        return port is not None and 1024 <= int(port) < 1 << 16
    # Without either of the two, Docker takes the name for a folder of its own default registry.
    return port is not None or "." in host


FORMAT = Form(expects="1", accepts=lambda value: value == 1 and value is not True)
NAME = pattern(
    "a name of letters and digits, with . _ - between them", r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
)
HOST = pattern("a host that SSH can be given", r"[A-Za-z0-9_\[][A-Za-z0-9._:@%\]-]*")
USER = pattern("the name of a user", r"[A-Za-z_][A-Za-z0-9_.-]*")
INTERFACE = pattern("the name of a network interface, of 15 characters at most", r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}")
DEVICE = pattern("the name of an RDMA device, as in rocep1s0f0", r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
IMAGES = Form(
    expects="a registry and a folder in it, as in host:5000/derive; on loopback with a port from 1024 on",
    accepts=_is_registry,
)
ADDRESS = Form(expects="an IPv4 address, as in 192.0.2.11", accepts=is_address)
SUBNET = Form(expects="an IPv4 subnet, as in 10.12.1.0/24", accepts=_is_subnet)
HOME = Form(
    expects="the full path of a folder, of letters, digits and ._+@-",
    accepts=lambda value: _is_folder(value) and not str(value).startswith("{"),
)
FOLDER = Form(expects=f"{HOME.expects}, which may begin with {{home}}", accepts=_is_folder)
PORT = between(0, 1)
BYTE = between(0, 255)
CABLING = one_of("triangle", "ring4")
SHAPE = pattern("a name of small letters, digits and hyphens", r"[a-z0-9]+(-[a-z0-9]+)*")

_PATH = Table(
    keys={
        "subnet": SUBNET,
        "devices": Rows(of=DEVICE, exactly=2),
        "interfaces": Rows(of=INTERFACE, exactly=2),
        "addresses": Rows(of=ADDRESS, exactly=2),
    }
)
_CABLE = Table(
    keys={
        "between": Rows(of=NAME, exactly=2),
        "ports": Rows(of=PORT, exactly=2),
        "paths": Rows(of=_PATH, least=1),
    },
    required=frozenset({"between"}),
)
NODE = Table(
    keys={
        "name": NAME,
        "address": ADDRESS,
        "ssh-host": HOST,
        "interface": INTERFACE,
        "gid-index": BYTE,
        "traffic-class": BYTE,
    },
    required=frozenset({"name", "address"}),
)
SITE = Table(
    keys={
        "format": FORMAT,
        "name": NAME,
        "cabling": CABLING,
        "ssh-user": USER,
        "home": HOME,
        "folder": FOLDER,
        "models": FOLDER,
        "images": IMAGES,
        "interface": INTERFACE,
        "gid-index": BYTE,
        "shapes": Each(names=SHAPE, values=SHAPE),
        "nodes": Rows(of=NODE),
        "cables": Rows(of=_CABLE, least=1),
    },
    required=frozenset({"format", "name", "cabling", "ssh-user", "home", "interface", "nodes"}),
)

_VARIABLES = Each(names=VARIABLE, values=VALUE)
_OPTIONS = Each(names=TEXT, values=TEXT)
_COUNT = between(1, 1024)
_ENGINE_KEYS: Mapping[str, Spec] = {
    "variables": Rows(of=TEXT, least=1),
    "peers": VARIABLE,
    "gid-index": VARIABLE,
    "traffic-class": VARIABLE,
}
_TRANSPORT = Table(
    keys={
        "doc": PROSE,
        "cablings": Rows(of=CABLING, least=1),
        "collectives": SWITCH,
        "ring": SWITCH,
        "engine": SHAPE,
        "needs": Rows(of=SHAPE, least=1),
        "settings": _VARIABLES,
        "off": _VARIABLES,
        "custom-all-reduce": one_of("enabled", "disabled"),
        "stripes": between(1, 2),
        "peers": one_of("cabled", "all"),
        "planned": PROSE,
    },
    required=frozenset({"doc", "cablings"}),
)
_KERNEL_BACKEND = Table(
    keys={
        "arguments": _OPTIONS,
        "draft-arguments": _OPTIONS,
        "settings": _VARIABLES,
        "off": _VARIABLES,
        "needs": Rows(of=SHAPE),
        "cache": VARIABLE,
    }
)
TRANSPORTS = Table(
    keys={
        "format": FORMAT,
        "shared": Table(
            keys={"needs": Rows(of=SHAPE), "settings": _VARIABLES, "off": _VARIABLES}, required=frozenset({"settings"})
        ),
        "ring": Table(
            keys={
                "forbidden-variables": Rows(of=VARIABLE),
                "channels": Table(
                    keys={"triangle": Rows(of=_COUNT, least=1), "ring4": Rows(of=_COUNT, least=1)},
                    required=frozenset({"triangle", "ring4"}),
                ),
                "settings": _VARIABLES,
            },
            required=frozenset({"forbidden-variables", "channels", "settings"}),
        ),
        "engines": Each(names=SHAPE, values=Table(keys=_ENGINE_KEYS, required=frozenset(_ENGINE_KEYS))),
        "transports": Each(names=SHAPE, values=_TRANSPORT),
        "kernel-backends": Each(names=SHAPE, values=_KERNEL_BACKEND),
    },
    required=frozenset({"format", "shared", "ring", "engines", "transports", "kernel-backends"}),
)
SETTINGS = Table(
    keys={
        "format": FORMAT,
        "settings": Each(
            names=VARIABLE,
            values=Table(
                keys={
                    "meaning": PROSE,
                    "default": PROSE,
                    "kind": one_of("bytes", "count", "limit", "size", "protocol", "six-numbers"),
                    "engine": SHAPE,
                    "needs": SHAPE,
                    "nodes": between(3, 4),
                },
                required=frozenset({"meaning", "default", "kind"}),
            ),
        ),
    },
    required=frozenset({"format", "settings"}),
)
TUNING = Table(
    keys={
        "format": FORMAT,
        "doc": PROSE,
        "nodes": between(3, 4),
        "nccl": _VARIABLES,
        "engines": Each(names=SHAPE, values=_VARIABLES),
        "transports": Each(names=SHAPE, values=_VARIABLES),
    },
    required=frozenset({"format", "doc", "nodes"}),
)
