# SPDX-License-Identifier: Apache-2.0
"""``kernel``: sources, a unit's machine code, its place in a host's cache, the index. Page: docs/builders/kernel.md.

Edge: the store, the sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from derive.build.builders.script import run_step
from derive.build.context import Context, Source
from derive.canonical import Json, encode, unescape
from derive.derivations.model import Output, ResolvedDerivation, TreeOutput
from derive.errors import BuildFailed
from derive.kernels import drivers
from derive.kernels.index import (
    CUBIN,
    INDEX,
    LAUNCH,
    RESOURCES,
    Compiled,
    folders,
    index_document,
    read_compiled,
    unit_name,
    version_of,
)
from derive.kernels.steps import MACHINE
from derive.sandbox.request import Program
from derive.store.protocol import Store, read_all
from derive.trees.listing import DIRECTORY, File, Listing
from derive.trees.materialise import materialise
from derive.trees.pack import Member, NewFile, add_members

TOOLS: Mapping[Json, str] = {"device": "unit", "host": "driver"}
"""By part, the input under which its sandbox finds its program, and what is compiled."""


def build(request: ResolvedDerivation, context: Context) -> Mapping[str, Output]:
    """Do the part that the arguments name."""
    part = request.arguments["part"]
    if part == "source":
        listing = _source(request, context.store)
    elif part == "index":
        listing = _index(request, context.store)
    elif part in TOOLS:
        listing = _compiled(request, context)
    else:
        raise BuildFailed(f"no part of a kernel: {part!r}")
    return {"out": TreeOutput(context.store.add_listing(listing))}


def write_tool(store: Store, top: Path, arguments: Mapping[str, Json]) -> Path:
    """Write what the sandbox of a part finds as :data:`TOOLS` says, once, and return the folder."""
    part = str(arguments["part"])
    folder = top / TOOLS[part]
    if folder.exists():
        return folder  # a failed build that was kept has it
    materialise(store, tool_listing(store, arguments), folder)
    return folder


def tool_listing(store: Store, arguments: Mapping[str, Json]) -> Listing:
    """Return what the sandbox of a part finds as :data:`TOOLS` says, as a tree."""
    part = str(arguments["part"])
    files: dict[bytes, bytes] = {f"{part}.py".encode(): drivers.driver(part)}
    if part == "device":
        files |= {b"unit.json": encode(arguments["unit"]), b"kernel.py": unescape(str(arguments["source"]))}
    members = [(path, NewFile(executable=False, chunks=[data])) for path, data in sorted(files.items())]
    return add_members(store, members)


def _source(request: ResolvedDerivation, store: Store) -> Listing:
    files = request.arguments["files"]
    assert isinstance(files, Mapping)
    members: list[tuple[bytes, Member]] = [
        (path.encode(), NewFile(executable=False, chunks=[unescape(str(text))])) for path, text in files.items()
    ]
    return add_members(store, members)


def _compiled(request: ResolvedDerivation, context: Context) -> Listing:
    arguments = request.arguments
    sources: dict[str, Source] = {TOOLS[arguments["part"]]: tool_listing(context.store, arguments)}
    if arguments["part"] == "host":
        sources["device"] = request.tree("device")
    command = Program(argv=drivers.command(arguments))
    # The compiler's words are in the log, whose last lines whoever reports a failure shows.
    listing = run_step(request, context, command, sources, drivers.ENVIRONMENT, doer="compiler")
    required = (CUBIN, LAUNCH, RESOURCES) if request.arguments["part"] == "device" else ()
    absent = [name for name in required if not isinstance(listing.get(name.encode()), File)]
    if absent or not any(True for _ in listing.files()):
        what = ", ".join(absent) or "any file"
        raise BuildFailed(f"the compiler of {context.name} ended well and did not write {what}")
    return listing


def _index(request: ResolvedDerivation, store: Store) -> Listing:
    units = request.arguments["units"]
    assert isinstance(units, list | tuple)
    compiled = [_read(store, unit, request, f"device.{index}") for index, unit in enumerate(units)]
    places = folders(version_of(compiled), MACHINE[request.host])
    members: list[tuple[bytes, Member]] = [(path.encode(), DIRECTORY) for path in places]
    data = index_document(compiled)
    return add_members(store, [*members, (INDEX.encode(), NewFile(executable=False, chunks=[data]))])


def _read(store: Store, unit: Json, request: ResolvedDerivation, role: str) -> Compiled:
    assert isinstance(unit, Mapping)
    listing = store.listing(request.tree(role))
    found = {name: listing.get(name.encode()) for name in (CUBIN, LAUNCH, RESOURCES)}
    files = {name: entry for name, entry in found.items() if isinstance(entry, File)}
    if len(files) < len(found):
        absent = ", ".join(sorted(found.keys() - files.keys()))
        raise BuildFailed(f"what was compiled of {unit_name(unit)} is incomplete: no {absent}")
    launch, resources = (read_all(store, files[name]) for name in (LAUNCH, RESOURCES))
    return read_compiled(unit, launch, resources, files[CUBIN].sha256)
