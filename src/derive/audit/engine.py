# SPDX-License-Identifier: Apache-2.0
"""The engine of the time: its source from the capsule, its root derived by today's engine, or taken as it was kept.

Edge: the store, the capsule, the sandbox.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from derive.canonical import Digest, Json
from derive.derivations.model import Output, Platform, TreeOutput
from derive.errors import DeriveError, InputErrors, UpstreamGone
from derive.store.local import LocalStore

if TYPE_CHECKING:
    from derive.build.execute import Progress
    from derive.build.service import Options
    from derive.capsule.model import CapsuleDocument
    from derive.capsule.read import Capsule
    from derive.releases.find import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineThen:
    """The unpacked root of an engine, which derivation gives it here and in the record, and what there is to say.

    ``derivation`` is None where today's engine cannot evaluate it: then the root is the one that the capsule kept.
    """

    root: Path
    version: str
    source: Digest
    platform: Platform
    recorded: Digest | None
    derivation: Digest | None
    output: TreeOutput
    python: str
    notes: tuple[str, ...]

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {
            "version": self.version,
            "source": f"nar:{self.source}",
            "platform": self.platform,
            "recorded": None if self.recorded is None else self.recorded.hex,
            "derivation": None if self.derivation is None else self.derivation.hex,
            "output": str(self.output),
            "python": self.python,
        }


def engine_then(
    known: Known,
    capsule: Capsule | None,
    document: CapsuleDocument | None,
    store: LocalStore,
    options: Options,
    progress: Progress,
) -> EngineThen:
    """Return the engine that made a release, ready to run on this machine.

    Raises:
        HostRefuses: when no engine is made for this machine.
        UpstreamGone: when its source is nowhere at hand.
        DeriveError: what deriving its root raises.
    """
    from derive.engine.derivation import engine_derivation
    from derive.engine.outer import engine_python
    from derive.engine.service import derive_engine, own_platform

    released, platform = known.release.engine, own_platform()
    recorded = released.derivations.get(platform)
    facts = known.facts.engine.get(platform)
    wanted = None if facts is None else facts.output
    notes: list[str] = []
    derivation: Digest | None = None
    try:
        files = source_files(released.source, capsule, store)
        derivation = engine_derivation(files, platform).id
    except InputErrors as error:
        kept = _kept(capsule, document, platform, store)
        if kept is None:
            raise
        notes.append(f"today's engine cannot evaluate the engine of then: {error.problems()[0].message}")
        output = kept
    else:
        kept = _kept(capsule, document, platform, store) if derivation != recorded else None
        if derivation != recorded:
            notes.append("today's engine gives the engine of then another derivation: its builders have new versions")
        if kept is None:
            output = derive_engine(files, platform, store, options, progress)
        else:
            derivation, output = None, kept
    if derivation is None:
        notes.append(f"the root of the engine of then is taken as the capsule keeps it, {output}, and was not derived")
    elif wanted is not None and wanted != output:
        notes.append(f"the root of the engine of then came out as {output}, and is recorded as {wanted}")
    root = store.folder(output.digest)
    python = engine_python(root).removeprefix("python")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if python != here:
        notes.append(f"the engine of then runs on Python {python}, this one on {here}: it runs in its own locked root")
    return EngineThen(
        root=root,
        version=released.version,
        source=released.source,
        platform=platform,
        recorded=recorded,
        derivation=derivation,
        output=output,
        python=python,
        notes=tuple(notes),
    )


def source_files(nar: Digest, capsule: Capsule | None, store: LocalStore) -> Mapping[str, bytes]:
    """Return the files of an engine's source by path: the running engine's own, a capsule's, or a store's.

    Raises:
        UpstreamGone: when none of them has it.
        Corrupt: when a capsule has other bytes under its name.
    """
    from derive.engine.model import source_of
    from derive.engine.source import engine_files
    from derive.trees.nar_read import NarFile, entries_of

    own = engine_files()
    if source_of(own).nar == nar:
        return own
    if capsule is not None and capsule.has(nar):
        entries = entries_of(capsule.read(nar))
        return {path.decode(): b"".join(one.chunks) for path, one in entries if isinstance(one, NarFile)}
    if store.has_tree(nar):
        return {path.decode(): b"".join(store.read(file)) for path, file in store.listing(nar).files()}
    raise UpstreamGone(
        "the source of the engine that made the release is not at hand",
        detail=[f"wanted    nar:{nar}", f"running   nar:{source_of(own).nar}"],
        hint="name a capsule of the release: --capsule FILE",
    )


def _kept(
    capsule: Capsule | None, document: CapsuleDocument | None, platform: Platform, store: LocalStore
) -> TreeOutput | None:
    """Bring the root that a capsule keeps into a store, its hash checked; None where it keeps none."""
    from derive.capsule.model import ROOT
    from derive.trees.nar_read import read_nar

    digest = None if document is None else document.of(ROOT).get(platform)
    if capsule is None or digest is None:
        return None
    if not store.has_tree(digest):
        listing = read_nar(store, capsule.read(digest))
        if store.add_listing(listing) != digest:
            raise DeriveError("the root that the capsule keeps is not what its name says", where=capsule.where)
    return TreeOutput(digest)


@contextmanager
def archive_named(path: str | None) -> Iterator[None]:
    """Name a capsule as the first archive of this machine meanwhile."""
    from derive.lock.mirrors import ARCHIVES_VARIABLE

    before = os.environ.get(ARCHIVES_VARIABLE)
    if path is not None:
        os.environ[ARCHIVES_VARIABLE] = f"{Path(path).absolute()} {before or ''}".strip()
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(ARCHIVES_VARIABLE, None)
        else:
            os.environ[ARCHIVES_VARIABLE] = before


def same_outputs(first: Mapping[str, Output], second: Mapping[str, Output]) -> tuple[str, ...]:
    """Return the names of outputs that differ between two builds of one step."""
    return tuple(sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name)))
