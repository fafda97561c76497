# SPDX-License-Identifier: Apache-2.0
"""``bytecode``: checked-hash byte code of a tree's Python sources. Page: docs/builders/bytecode.md.

Edge: the store, the sandbox.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from derive.build.compile_server import CompileServer, own_server
from derive.build.context import Context
from derive.canonical import Digest, Json, digest_document, escape, sha256, unescape
from derive.derivations.model import Output, ResolvedDerivation, TreeOutput
from derive.errors import BuildFailed
from derive.store.protocol import read_all
from derive.trees.listing import EMPTY, File, Listing, nar_key
from derive.trees.pack import NewFile, add_members
from derive.wheels import bytecode


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


def _compiled_now(request: ResolvedDerivation, context: Context, listing: Listing, sources: Sequence[bytes]) -> Listing:
    """Compile, and write the byte code into one pack, in the order of the tree that it becomes."""
    python = str(request.arguments["python"])
    ordered = sorted(sources, key=lambda path: nar_key(bytecode.byte_code_path(path, python)))
    contents = ((path, read_all(context.store, _file(listing, path))) for path in ordered)
    skipped: dict[bytes, str] = {}

    def compiled(server: CompileServer) -> Iterator[tuple[bytes, NewFile]]:
        for path, reply in zip(ordered, server.compile(contents, context), strict=True):
            if reply.status == "crashed":
                raise BuildFailed(f"the byte-code compiler crashed at {escape(path)}", detail=(reply.reason.strip(),))
            if reply.status == "refused":
                skipped[path] = reply.reason
            else:
                yield bytecode.byte_code_path(path, python), NewFile(executable=False, chunks=[reply.data])

    servers = None if context.from_nothing else context.compilers
    lent = own_server(request, context) if servers is None else servers.lent(request, context)
    with lent as server:
        # Not searched for the sandbox's paths as scripts' outputs are: constants are the sources' own, and what the
        # compiler adds, the name of the source, is given to it.
        found = add_members(context.store, compiled(server))
    for path in sorted(skipped):
        context.log(f"not compiled: {escape(path)}: {skipped[path]}")
    return found


def _file(listing: Listing, path: bytes) -> File:
    file = listing[path]
    assert isinstance(file, File)
    return file


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


def _texts(document: Json) -> Sequence[str]:
    assert isinstance(document, list | tuple)
    return [str(item) for item in document]
