# SPDX-License-Identifier: Apache-2.0
"""A sandbox is a value: what is mounted where, under which names and variables, running which program.

Core: no IO. Host paths are bytes, as ``os.fsencode`` gives them; paths inside the sandbox are bytes too.

The guarantee that this value makes is written down in docs/sandbox.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from derive.canonical import Json
from derive.errors import InputErrors, Problem
from derive.sandbox.checks import check_command, check_environment, check_inputs, check_root
from derive.sandbox.request import (
    FIXED_ENVIRONMENT,
    RESERVED,
    Command,
    Program,
    RootEntry,
    RootFile,
    RootFolder,
    RootLink,
    SandboxRequest,
    Script,
)

WORK = b"/build"
OUT = b"/out"
IN = b"/in"
SCRIPT = IN + b"/.derive-script"
SHELL = ("/bin/sh", "-eu")
HOST_NAME = "derive"
OWNER = 1000

DEVICES = (b"full", b"null", b"random", b"tty", b"urandom", b"zero")
"""The device nodes of ``/dev``; there are no others."""

NAMESPACES = ("user", "ipc", "pid", "net", "uts", "cgroup-try")


@dataclass(frozen=True, slots=True)
class Bind:
    """The host's ``source`` at ``target``, writable."""

    source: bytes
    target: bytes


@dataclass(frozen=True, slots=True)
class ReadOnlyBind:
    """The host's ``source`` at ``target``, read-only."""

    source: bytes
    target: bytes


@dataclass(frozen=True, slots=True)
class DeviceBind:
    """A device node of the host at ``target``."""

    source: bytes
    target: bytes


@dataclass(frozen=True, slots=True)
class MakeFolder:
    """An empty folder at ``target``."""

    target: bytes


@dataclass(frozen=True, slots=True)
class MakeLink:
    """A symbolic link at ``target`` that leads to ``leads_to``."""

    leads_to: bytes
    target: bytes


@dataclass(frozen=True, slots=True)
class MakeFile:
    """A file at ``target`` with mode 0444."""

    contents: bytes
    target: bytes


@dataclass(frozen=True, slots=True)
class Proc:
    """The process file system of the sandbox's own process namespace."""

    target: bytes


@dataclass(frozen=True, slots=True)
class Dev:
    """A folder with :data:`DEVICES`, its own pseudo terminals, and the usual links."""

    target: bytes


@dataclass(frozen=True, slots=True)
class Scratch:
    """An empty memory file system, mode 1777."""

    target: bytes


@dataclass(frozen=True, slots=True)
class Seal:
    """Whatever is mounted at ``target`` becomes read-only; what is mounted below it does not."""

    target: bytes


Mount: TypeAlias = Bind | ReadOnlyBind | DeviceBind | MakeFolder | MakeLink | MakeFile | Proc | Dev | Scratch | Seal


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """Everything about a sandbox, nothing left to decide.

    ``mounts`` are made in order. ``environment`` is all of it, sorted, but for the ``PWD`` that bubblewrap adds.
    ``standard_input`` is a path on the host. ``nests``: programs in it may make sandboxes of their own; no build may.
    """

    mounts: tuple[Mount, ...]
    environment: tuple[tuple[str, str], ...]
    argv: tuple[str, ...]
    cwd: bytes = WORK
    host_name: str = HOST_NAME
    uid: int = OWNER
    gid: int = OWNER
    standard_input: bytes = b"/dev/null"
    namespaces: tuple[str, ...] = NAMESPACES
    nests: bool = False

    @property
    def files(self) -> tuple[MakeFile, ...]:
        """The files that the runner hands over, in mount order."""
        return tuple(mount for mount in self.mounts if isinstance(mount, MakeFile))


def sandbox_settings() -> Mapping[str, Json]:
    """Return what every sandbox has in common, as the part of a derivation's identity that stands for it."""
    return {
        "cwd": WORK.decode(),
        "environment": dict(FIXED_ENVIRONMENT),
        "gid": OWNER,
        "host-name": HOST_NAME,
        "shell": list(SHELL),
        "uid": OWNER,
    }


def sandbox_spec(request: SandboxRequest) -> SandboxSpec:
    """Turn a request into a specification.

    Raises:
        InputErrors: every name, variable and root entry that cannot be, at once.
    """
    problems = [
        *check_root(request.root_entries),
        *check_inputs(request.inputs),
        *check_environment(request.environment),
        *check_command(request.command),
    ]
    if request.jobs < 1:
        problems.append(Problem(where="jobs", message=f"not a number of jobs: {request.jobs}"))
    if problems:
        raise InputErrors(problems)
    argv, files = _command(request.command)
    environment = {**request.environment, **FIXED_ENVIRONMENT, "DERIVE_JOBS": str(request.jobs)}
    return SandboxSpec(
        mounts=(
            *root_mounts(request.root, request.root_entries),
            MakeFolder(IN),
            *(ReadOnlyBind(source, IN + b"/" + name.encode()) for name, source in sorted(request.inputs.items())),
            *files,
            *system_mounts(request.devices),
            Bind(request.work, WORK),
            Bind(request.out, OUT),
            Seal(b"/"),
        ),
        environment=tuple(sorted(environment.items())),
        argv=argv,
        standard_input=b"/dev/null" if request.devices is None else request.devices + b"/null",
    )


def system_mounts(devices: bytes | None) -> tuple[Mount, ...]:
    """Return ``/proc``, ``/dev`` and ``/tmp``.

    ``/proc`` is sealed because a build started by root has the host's root as its owner outside the namespace, and
    Linux lets that owner write ``/proc/sys`` without any capability. For the same reason the device nodes are private
    ones where they can be made: an owner may change a node's mode.
    """
    nodes = () if devices is None else tuple(DeviceBind(devices + b"/" + n, b"/dev/" + n) for n in DEVICES)
    return (
        Proc(b"/proc"),
        Seal(b"/proc"),
        Dev(b"/dev"),
        *nodes,
        Scratch(b"/dev/shm"),
        Seal(b"/dev"),
        Scratch(b"/tmp"),
    )


def bwrap_arguments(spec: SandboxSpec, file_descriptors: Sequence[int] = ()) -> tuple[bytes, ...]:
    """Return bubblewrap's options for a specification, without the command that follows them.

    ``file_descriptors`` are those from which bubblewrap reads ``spec.files``, one each, in order.
    """
    if len(file_descriptors) != len(spec.files):
        raise ValueError(f"{len(spec.files)} files need as many descriptors, got {len(file_descriptors)}")
    descriptors = iter(file_descriptors)
    arguments: list[bytes] = [f"--unshare-{name}".encode() for name in spec.namespaces]
    arguments += [] if spec.nests else [b"--disable-userns"]
    arguments += [b"--uid", b"%d" % spec.uid, b"--gid", b"%d" % spec.gid]
    arguments += [b"--hostname", spec.host_name.encode(), b"--cap-drop", b"ALL"]
    arguments += [b"--new-session", b"--die-with-parent", b"--clearenv"]
    for name, value in spec.environment:
        arguments += [b"--setenv", name.encode(), value.encode()]
    for mount in spec.mounts:
        arguments += _mount_arguments(mount, descriptors)
    return (*arguments, b"--chdir", spec.cwd)


def _command(command: Command) -> tuple[tuple[str, ...], tuple[MakeFile, ...]]:
    match command:
        case Script(text=text):
            return (*SHELL, SCRIPT.decode()), (MakeFile(text.encode(), SCRIPT),)
        case Program(argv=argv):
            return argv, ()
        case _:
            assert_never(command)


def root_mounts(root: bytes, entries: Iterable[RootEntry]) -> list[Mount]:
    """Return one mount or link per top-level entry, so that the sandbox's own folders fit in beside them."""
    mounts: list[Mount] = []
    for entry in sorted(entries, key=lambda entry: entry.name):
        target = b"/" + entry.name
        if entry.name in RESERVED:
            continue
        match entry:
            case RootFolder() | RootFile():
                mounts.append(ReadOnlyBind(root + target, target))
            case RootLink(target=leads_to):
                mounts.append(MakeLink(leads_to, target))
            case _:
                assert_never(entry)
    return mounts


def _mount_arguments(mount: Mount, descriptors: Iterator[int]) -> list[bytes]:  # noqa: PLR0911
    match mount:
        case Bind(source, target):
            return [b"--bind", source, target]
        case ReadOnlyBind(source, target):
            return [b"--ro-bind", source, target]
        case DeviceBind(source, target):
            return [b"--dev-bind", source, target]
        case MakeFolder(target):
            return [b"--dir", target]
        case MakeLink(leads_to, target):
            return [b"--symlink", leads_to, target]
        case MakeFile(_, target):
            return [b"--perms", b"0444", b"--file", b"%d" % next(descriptors), target]
        case Proc(target):
            return [b"--proc", target]
        case Dev(target):
            return [b"--dev", target]
        case Scratch(target):
            return [b"--perms", b"1777", b"--tmpfs", target]
        case Seal(target):
            return [b"--remount-ro", target]
        case _:
            assert_never(mount)
