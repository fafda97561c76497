# SPDX-License-Identifier: Apache-2.0
"""Enters the sandbox that a derivation is built in: its root, its inputs, its variables and its script.

Edge: the store, the sandbox, standard streams.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from derive.build.builders.kernel import TOOLS, write_tool
from derive.build.builders.script import FILES, write_files
from derive.build.execute import Progress
from derive.build.service import Options, plan_for, realise
from derive.canonical import Digest, unescape
from derive.derivations.model import Derivation, FlatOutput, Output, TreeOutput
from derive.errors import BuildFailed, InputErrors
from derive.sandbox.interactive import enter
from derive.sandbox.probe import find_sandbox
from derive.sandbox.request import Program, SandboxRequest, root_entries
from derive.sandbox.scratch import ScratchFolders, opened_scratch, scratch_folders
from derive.sandbox.spec import SCRIPT, MakeFile, SandboxSpec, Seal, sandbox_spec
from derive.store.local import LocalStore

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]")


def enter_sandbox(
    target: Derivation,
    store: LocalStore,
    options: Options,
    progress: Progress,
    *,
    command: Sequence[str] = (),
    root: Derivation | None = None,
    kept: bool = False,
    terminal: str | None = None,
) -> int:
    """Bring what a derivation is built from into the store, enter its sandbox, and return the exit status.

    ``root`` is a tree with a shell, for derivations that are built without a sandbox. ``kept`` enters the folders that
    its last failed build left (``--keep-failed``). ``terminal`` is the kind of the person's terminal.

    Raises:
        InputErrors: when there is no root to enter, or nothing was kept.
        DeriveError: what deriving the inputs raises.
    """
    roles = {role: reference.derivation for role, reference in target.inputs.items()}
    if "root" not in roles and root is None:
        raise InputErrors.one(
            f"{target.name} is built without a sandbox ({target.builder})",
            hint="name a Debian root that has a shell with --root, and its inputs are put below /in",
        )
    found = {role: _output(store, roles[role], target.inputs[role].output, options, progress) for role in roles}
    top = found["root"] if root is None else _output(store, root, "out", options, progress)
    if not isinstance(top, TreeOutput):
        raise InputErrors.one("the root is a single file, and a sandbox needs a tree")
    with _folders(store, target, kept=kept) as folders:
        inputs = {_input_name(role): store_place(store, output) for role, output in found.items() if role != "root"}
        if target.builder == "kernel" and target.arguments["part"] in TOOLS:
            part = TOOLS[target.arguments["part"]]
            inputs[part] = os.fsencode(write_tool(store, folders.top, target.arguments))
        elif target.builder == "script" and target.arguments[FILES]:
            inputs[FILES] = os.fsencode(write_files(store, folders.top, target.arguments[FILES]))
        spec = _spec(target, store, top.digest, inputs, folders, options.jobs, command, terminal)
        return enter(find_sandbox(), spec)


def store_place(store: LocalStore, output: Output) -> bytes:
    """Return where an output lies: a folder for a tree, else its file."""
    match output:
        case TreeOutput(digest):
            return os.fsencode(store.folder(digest))
        case FlatOutput(digest):
            return os.fsencode(store.blob_path(digest))


def _output(store: LocalStore, derivation: Derivation, name: str, options: Options, progress: Progress) -> Output:
    return realise(plan_for(derivation, store, options.root), store, options, progress)[name]


def _input_name(role: str) -> str:
    return _NOT_IN_NAMES.sub("_", role.removeprefix("in."))


@contextlib.contextmanager
def _folders(store: LocalStore, target: Derivation, *, kept: bool) -> Iterator[ScratchFolders]:
    if not kept:
        with scratch_folders(Path(store.staging.new_path()).parent) as folders:
            yield folders
        return
    place = store.failed_path(target.id)
    if not place.is_dir():
        raise InputErrors.one(
            f"nothing is kept of a failed build of {target.name}",
            hint=f"build it with --keep-failed first: derive build {target.name} --keep-failed",
        )
    with opened_scratch(place) as folders:
        yield folders


def _spec(
    target: Derivation,
    store: LocalStore,
    root: Digest,
    inputs: Mapping[str, bytes],
    folders: ScratchFolders,
    jobs: int,
    command: Sequence[str],
    terminal: str | None,
) -> SandboxSpec:
    listing = store.listing(root)
    environment = target.arguments.get("environment")
    variables = environment if isinstance(environment, Mapping) else {}
    script = target.arguments.get("script")
    shell = "/bin/bash" if _has(listing, b"bash") else "/bin/sh"
    if not _has(listing, b"bash") and not _has(listing, b"sh"):
        raise BuildFailed("the root has no shell", hint="name another root with --root")
    argv = ("/bin/sh", "-c", 'exec "$@"', "sh", *command) if command else (shell, "-i")
    spec = sandbox_spec(
        SandboxRequest(
            root=os.fsencode(store.folder(root)),
            root_entries=root_entries(listing),
            inputs=inputs,
            work=os.fsencode(folders.work),
            out=os.fsencode(folders.out),
            command=Program(argv=argv),
            environment={str(key): str(value) for key, value in variables.items()},
            jobs=jobs,
            devices=None if folders.devices is None else os.fsencode(folders.devices),
        )
    )
    added = {"PS1": f"[derive {target.name}] \\w $ ", **({"TERM": terminal} if terminal else {})}
    mounts = spec.mounts
    if isinstance(script, str):
        file = MakeFile(unescape(script), SCRIPT)
        at = mounts.index(Seal(b"/"))
        mounts = (*mounts[:at], file, *mounts[at:])
    return replace(spec, mounts=mounts, environment=tuple(sorted({**dict(spec.environment), **added}.items())))


def _has(listing: Mapping[bytes, object], name: bytes) -> bool:
    return any(folder + name in listing for folder in (b"bin/", b"usr/bin/"))
