# SPDX-License-Identifier: Apache-2.0
"""The sandbox that a whole engine runs in, as a value: its own root, a project, a store, and nothing of the host.

Core: no IO. Host paths are bytes, as ``os.fsencode`` gives them.

Builds have sandboxes of their own inside it, with rules that are not these (docs/sandbox.md): what runs here is an
engine, which is trusted with the store that it is given, and is kept from whatever could change what it derives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from derive.sandbox.request import RootEntry
from derive.sandbox.spec import (
    DEVICES,
    Bind,
    Dev,
    DeviceBind,
    MakeFolder,
    Mount,
    ReadOnlyBind,
    SandboxSpec,
    Scratch,
    Seal,
    root_mounts,
)

PYTHON_OPTIONS = ("-I", "-B")
"""Isolated from variables and from the working folder, whose ``kernels`` and ``lock`` are no packages."""

WORK = "/work"
PROJECT, STORE, OUT, HOME = (f"{WORK}/{name}" for name in ("project", "store", "out", "home"))
ARCHIVE = f"{WORK}/capsule"
ARCHIVE_FILE = f"{ARCHIVE}.tar"
RESOLVER = "/etc/resolv.conf"
CERTIFICATES = f"{WORK}/certificates.crt"

_PYTHON = re.compile(r"python3\.([0-9]{1,3})", re.ASCII)

_NAMESPACES = ("user", "ipc", "uts", "cgroup-try")
"""No process namespace: bubblewrap looks up its children by number in ``/proc``, which is the host's here."""

ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "DERIVE_STORE": STORE,
        "HOME": HOME,
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        "TZ": "UTC",
    }
)
"""Set in every run. ``DERIVE_ARCHIVES`` comes beside them where there is an archive, and ``PWD`` from the runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterRequest:
    """What an engine is given.

    ``root`` is the folder of its root tree, ``root_entries`` the top level of that, ``python`` the program in it that
    runs the engine, by its path in there. ``project`` and ``archive`` are
    read-only, ``store`` and ``out`` are not; an archive is a folder, or one file. ``network``: it may reach what this
    machine reaches, and finds names as this machine does; ``certificates`` is a bundle that it trusts then in place of
    its own. ``environment`` are variables beside :data:`ENVIRONMENT`. ``devices`` is a folder with private device
    nodes; without it the host's own are bound.
    """

    root: bytes
    root_entries: tuple[RootEntry, ...]
    python: str
    project: bytes
    store: bytes
    out: bytes | None = None
    archive: bytes | None = None
    archive_is_file: bool = False
    network: bool = False
    certificates: bytes | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    devices: bytes | None = None


def python_of(names: Iterable[str]) -> str | None:
    """Return the highest Python 3 among the names of a root's ``usr/bin``, as ``python3.13``; None without one."""
    found = {int(match[1]): name for name in names if (match := _PYTHON.fullmatch(name))}
    return found[max(found)] if found else None


def engine_spec(request: OuterRequest, argv: tuple[str, ...]) -> SandboxSpec:
    """Return the sandbox in which an engine runs with some arguments."""
    return program_spec(request, (request.python, *PYTHON_OPTIONS, "-m", "derive", *argv))


def program_spec(request: OuterRequest, argv: tuple[str, ...]) -> SandboxSpec:
    """Return the sandbox in which a program of the root runs."""
    environment = {**request.environment, **ENVIRONMENT}
    if request.archive is not None:
        environment["DERIVE_ARCHIVES"] = ARCHIVE_FILE if request.archive_is_file else ARCHIVE
    if request.certificates is not None:
        environment |= {"GIT_SSL_CAINFO": CERTIFICATES, "REQUESTS_CA_BUNDLE": CERTIFICATES}
    return SandboxSpec(
        mounts=(
            *root_mounts(request.root, request.root_entries),
            *_system_mounts(request.devices),
            MakeFolder(WORK.encode()),
            Scratch(HOME.encode()),
            *_given(request),
            Seal(b"/"),
        ),
        environment=tuple(sorted(environment.items())),
        argv=argv,
        cwd=PROJECT.encode(),
        namespaces=_NAMESPACES if request.network else (*_NAMESPACES, "net"),
        nests=True,
    )


def _system_mounts(devices: bytes | None) -> tuple[Mount, ...]:
    """Return ``/proc``, ``/dev`` and ``/tmp``.

    The host's own ``/proc``: Linux mounts a fresh one in a namespace of namespaces only where one lies open that has
    nothing mounted over its parts, and bubblewrap covers some in each that it makes. Other processes are seen in it,
    and not their files: what leads to those is refused across user namespaces.
    """
    nodes = () if devices is None else tuple(DeviceBind(devices + b"/" + n, b"/dev/" + n) for n in DEVICES)
    return (Bind(b"/proc", b"/proc"), Dev(b"/dev"), *nodes, Scratch(b"/dev/shm"), Scratch(b"/tmp"))


def _given(request: OuterRequest) -> list[Mount]:
    mounts: list[Mount] = [
        ReadOnlyBind(request.project, PROJECT.encode()),
        Bind(request.store, STORE.encode()),
    ]
    if request.out is not None:
        mounts.append(Bind(request.out, OUT.encode()))
    if request.archive is not None:
        place = ARCHIVE_FILE if request.archive_is_file else ARCHIVE
        mounts.append(ReadOnlyBind(request.archive, place.encode()))
    if request.network:
        mounts.append(ReadOnlyBind(RESOLVER.encode(), RESOLVER.encode()))
    if request.certificates is not None:
        mounts.append(ReadOnlyBind(request.certificates, CERTIFICATES.encode()))
    return mounts
