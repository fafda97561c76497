# SPDX-License-Identifier: Apache-2.0
"""``bytecode``: checked-hash byte code of a tree's Python sources. Page: docs/builders/bytecode.md.

Edge: the store, the sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from derive.build.builders.script import run_in_sandbox
from derive.build.context import Context
from derive.canonical import Digest, Json, digest_document, escape, sha256, unescape
from derive.derivations.model import Output, ResolvedDerivation, TreeOutput
from derive.sandbox.request import Program
from derive.sandbox.scratch import ScratchFolders, scratch_folders
from derive.trees.listing import EMPTY, File, Listing
from derive.trees.materialise import materialise
from derive.trees.pack import NewFile, add_members
from derive.trees.scan import scan_folder
from derive.wheels import bytecode

_INTERPRETER = "/usr/bin/python"


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Compile; the output holds the ``__pycache__`` folders alone. Sources that do not compile are in the log."""
    store = context.store
    listing = store.listing(request.tree("source"))
    paths = [unescape(path) for path in _texts(request.arguments["paths"])]
    sources = bytecode.sources(listing, paths, _texts(request.arguments["exclude"]))
    if not sources:
        context.log("no sources")
        return {"out": TreeOutput(store.add_listing(EMPTY))}
    there = _compiled_before(request, context, listing, sources)
    rest = tuple(path for path in sources if path not in there)
    fresh = _compiled_now(request, context, listing, rest) if rest else EMPTY
    kept = {bytecode.byte_code_path(path, str(request.arguments["python"])): file for path, file in there.items()}
    out = store.add_listing(Listing.of({**fresh, **kept}))
    context.log(f"{len(sources)} sources" + (f", {len(there)} of them compiled before" if there else ""))
    if not store.read_only:
        store.database.set_memo(_memo_key(request, context), f"{request.tree('source').hex} {out.hex}")
    return {"out": TreeOutput(out)}


def _compiled_now(
    request: ResolvedDerivation, context: Context, listing: Listing, sources: tuple[bytes, ...]
) -> Listing:
    store = context.store
    with scratch_folders(Path(context.scratch).parent) as folders:
        materialise(store, Listing.of({path: listing[path] for path in sources}), folders.top / "tree")
        output = _compile(request, context, folders, sources)
        for skipped in bytecode.read_report(sources, output):
            context.log(f"not compiled: {escape(skipped.path)}: {skipped.reason}")
        # Not searched for the sandbox's paths as scripts' outputs are: constants are the sources' own, and what the
        # compiler adds, the name of the source, is given to it.
        with scan_folder(folders.out, own=True) as found:
            return add_members(store, found.members())


def _compiled_before(
    request: ResolvedDerivation, context: Context, listing: Listing, sources: tuple[bytes, ...]
) -> dict[bytes, File]:
    """Return the byte code of sources that the last step of this name had too: each file's depends on itself alone."""
    store = context.store
    value = None if context.from_nothing else store.database.memo(_memo_key(request, context))
    if value is None:
        return {}
    source, out = (Digest(text) for text in value.split())
    if not (store.has_tree(source) and store.has_tree(out)):
        return {}
    before, compiled = store.listing(source), store.listing(out)
    python = str(request.arguments["python"])
    found = {path: compiled.get(bytecode.byte_code_path(path, python)) for path in sources}
    return {p: code for p, code in found.items() if isinstance(code, File) and before.get(p) == listing[p]}


def _memo_key(request: ResolvedDerivation, context: Context) -> Digest:
    """Return what the last trees are remembered under: all that decides a file's byte code, its source apart."""
    return digest_document(
        {
            "derive": "bytecode-memo/1",
            "builder": request.version,
            "root": request.tree("root").hex,
            "python": request.arguments["python"],
            "sandbox": request.arguments["sandbox"],
            "compiler": sha256(bytecode.script()).hex,
            "step": context.name,
        }
    )


def _compile(
    request: ResolvedDerivation, context: Context, folders: ScratchFolders, sources: tuple[bytes, ...]
) -> bytes:
    tool = folders.top / "tool"
    files = {bytecode.SCRIPT.encode(): bytecode.script(), b"worklist": bytecode.worklist(sources)}
    members = [(path, NewFile(executable=False, chunks=[data])) for path, data in files.items()]
    materialise(context.store, add_members(context.store, members), tool)
    command = bytecode.command(
        python=f"{_INTERPRETER}{request.arguments['python']}",
        script=f"/in/tool/{bytecode.SCRIPT}",
        worklist="/in/tool/worklist",
        tree="/in/tree",
        out="/out",
        jobs=context.jobs,
    )
    said = bytearray()

    def log(data: bytes) -> None:
        said.extend(data)
        context.log_bytes(data)

    inputs = {"tool": os.fsencode(tool), "tree": os.fsencode(folders.top / "tree")}
    run_in_sandbox(request, replace(context, log_bytes=log), folders, Program(argv=command), inputs, {})
    return bytes(said)


def _texts(document: Json) -> Sequence[str]:
    assert isinstance(document, list | tuple)
    return [str(item) for item in document]
