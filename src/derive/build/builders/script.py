# SPDX-License-Identifier: Apache-2.0
"""``script``: a script of ours, in the sandbox. Page: docs/builders/script.md.

Edge: the store, the sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from derive.build.context import Context, Source, Task
from derive.canonical import Digest, Json, unescape
from derive.derivations.model import Output, ResolvedDerivation, TreeOutput
from derive.sandbox.outcome import failure_of
from derive.sandbox.outputs import Finished, take_output
from derive.sandbox.references import Allowance
from derive.sandbox.request import Command, SandboxRequest, Script, root_entries
from derive.sandbox.scratch import ScratchFolders, scratch_folders
from derive.sandbox.spec import SandboxSpec, sandbox_spec
from derive.store.local import LocalStore
from derive.store.protocol import Store
from derive.trees.listing import Listing
from derive.trees.materialise import materialise
from derive.trees.pack import NewFile, add_members

FILES = "files"
"""The input under which a script finds the small sources that stand beside it."""


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Run the script, and take what it installed below ``$DERIVE_OUT``."""
    arguments = request.arguments
    inputs = {role.removeprefix("in."): role for role in request.inputs if role.startswith("in.")}
    sources: dict[str, Source] = {name: request.tree(role) for name, role in inputs.items()}
    if arguments["files"]:
        sources[FILES] = files_listing(context.store, arguments["files"])
    script = Script(text=unescape(str(arguments["script"])).decode())
    environment = arguments["environment"]
    assert isinstance(environment, Mapping)
    variables = {str(key): str(value) for key, value in environment.items()}
    listing = run_step(request, context, script, sources, variables, allowances=_allowances(arguments["allow"]))
    return {"out": TreeOutput(context.store.add_listing(listing))}


def run_step(
    request: ResolvedDerivation,
    context: Context,
    command: Command,
    sources: Mapping[str, Source],
    environment: Mapping[str, str],
    *,
    allowances: Sequence[Allowance] = (),
    doer: str = "script",
) -> Listing:
    """Run a command over the ``root`` input, here or where the context says, and return what it installed, checked.

    Raises:
        BuildFailed, Interrupted: what its outcome is, if not success, of the ``doer``; and what its output may not be.
        HostRefuses, Unavailable: when it cannot be run.
    """

    def take(output: Path | Callable[[], Finished]) -> Listing:
        store_path = os.fsencode(context.store.root)
        return take_output(
            context.store, output, name=context.name, store_path=store_path, allowances=allowances, note=context.log
        )

    if context.executor is None:
        with scratch_folders(Path(context.scratch).parent, keep=context.keep) as folders:
            laid = {name: os.fsencode(_laid(context.store, folders.top, name, one)) for name, one in sources.items()}
            run_in_sandbox(request, context, folders, command, laid, environment, doer)
            return take(folders.out)
    task = Task(
        name=context.name,
        root=request.tree("root"),
        platform=request.build,
        command=command,
        sources=sources,
        environment=environment,
        jobs=context.jobs,
    )
    with context.executor.run(task, context) as ran:
        context.ran_by(ran.worker)
        failure = failure_of(ran.outcome, name=context.name, log=None, doer=doer)
        if failure is not None:
            raise failure
        output = ran.output
        assert output is not None, "a step that ended well has an output"
        return take(lambda: output)


def _laid(store: LocalStore, top: Path, name: str, source: Source) -> Path:
    """Return a source as a folder or file of this machine; what is no tree of the store is written below ``top``."""
    if isinstance(source, Digest):
        return store.folder(source)
    folder = top / name
    if not folder.exists():  # a failed build that was kept has it
        materialise(store, source, folder)
    return folder


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
    if not (top / FILES).exists():  # a failed build that was kept has them
        materialise(store, files_listing(store, files), top / FILES)
    return top / FILES


def files_listing(store: Store, files: Json) -> Listing:
    """Return a script's own files as a tree, so that their modes and times are those of every other input."""
    assert isinstance(files, Mapping)
    members = [(name.encode(), NewFile(executable=False, chunks=[unescape(str(t))])) for name, t in files.items()]
    return add_members(store, members)


def _allowances(document: Json) -> list[Allowance]:
    assert isinstance(document, list | tuple)
    found = []
    for item in document:
        assert isinstance(item, Mapping)
        found.append(Allowance(path=str(item["path"]), text=str(item["text"]), reason=str(item["reason"])))
    return found
