# SPDX-License-Identifier: Apache-2.0
"""``script``: a script of ours, in the sandbox. Page: docs/builders/script.md.

Edge: the store, the sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from derive.build.context import Context
from derive.canonical import Json, unescape
from derive.derivations.model import Output, ResolvedDerivation, TreeOutput
from derive.sandbox.outcome import failure_of
from derive.sandbox.outputs import take_output
from derive.sandbox.references import Allowance
from derive.sandbox.request import Command, SandboxRequest, Script, root_entries
from derive.sandbox.scratch import ScratchFolders, scratch_folders
from derive.sandbox.spec import SandboxSpec, sandbox_spec
from derive.store.protocol import Store
from derive.trees.materialise import materialise
from derive.trees.pack import NewFile, add_members

FILES = "files"
"""The input under which a script finds the small sources that stand beside it."""


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Run the script, and take what it installed below ``$DERIVE_OUT``."""
    arguments = request.arguments
    inputs = {role.removeprefix("in."): role for role in request.inputs if role.startswith("in.")}
    with scratch_folders(Path(context.scratch).parent, keep=context.keep) as folders:
        sources = {name: os.fsencode(context.store.folder(request.tree(role))) for name, role in inputs.items()}
        if arguments["files"]:
            sources[FILES] = os.fsencode(write_files(context.store, folders.top, arguments["files"]))
        script = Script(text=unescape(str(arguments["script"])).decode())
        environment = arguments["environment"]
        assert isinstance(environment, Mapping)
        variables = {str(key): str(value) for key, value in environment.items()}
        run_in_sandbox(request, context, folders, script, sources, variables)
        listing = take_output(
            context.store,
            folders.out,
            name=context.name,
            store_path=os.fsencode(context.store.root),
            allowances=_allowances(arguments["allow"]),
            note=context.log,
        )
    return {"out": TreeOutput(context.store.add_listing(listing))}


def run_in_sandbox(
    request: ResolvedDerivation,
    context: Context,
    folders: ScratchFolders,
    command: Command,
    sources: Mapping[str, bytes],
    environment: Mapping[str, str],
    doer: str = "script",
) -> None:
    """Run a command over the ``root`` input; raises what its outcome is, if not success, of the ``doer``."""
    outcome = context.sandbox().run(
        sandbox_over(request, context, folders, command, sources, environment),
        log=lambda line: context.log_bytes(line + b"\n"),
        timeout_s=context.timeout_s,
        cancel=context.cancel,
    )
    failure = failure_of(outcome, name=context.name, log=None, doer=doer)
    if failure is not None:
        raise failure


def sandbox_over(
    request: ResolvedDerivation,
    context: Context,
    folders: ScratchFolders,
    command: Command,
    sources: Mapping[str, bytes],
    environment: Mapping[str, str],
) -> SandboxSpec:
    """Return the sandbox of a command over the ``root`` input, which is laid out on disk."""
    root = request.tree("root")
    return sandbox_spec(
        SandboxRequest(
            root=os.fsencode(context.store.folder(root)),
            root_entries=root_entries(context.store.listing(root)),
            inputs=sources,
            work=os.fsencode(folders.work),
            out=os.fsencode(folders.out),
            command=command,
            environment=environment,
            jobs=context.jobs,
            devices=None if folders.devices is None else os.fsencode(folders.devices),
        )
    )


def write_files(store: Store, top: Path, files: Json) -> Path:
    """Write a script's own files into a folder below ``top``, once, and return it."""
    if (top / FILES).exists():
        return top / FILES  # a failed build that was kept has them
    assert isinstance(files, Mapping)
    # By way of a listing, so that modes and times are those of every other input.
    members = [(name.encode(), NewFile(executable=False, chunks=[unescape(str(t))])) for name, t in files.items()]
    materialise(store, add_members(store, members), top / FILES)
    return top / FILES


def _allowances(document: Json) -> list[Allowance]:
    assert isinstance(document, list | tuple)
    found = []
    for item in document:
        assert isinstance(item, Mapping)
        found.append(Allowance(path=str(item["path"]), text=str(item["text"]), reason=str(item["reason"])))
    return found
