# SPDX-License-Identifier: Apache-2.0
"""The engine of this checkout, derived once for a session: its root is unpacked in a store that tests share.

Edge: the file system, the network through the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from derive.build.service import Options
from derive.canonical import Digest
from derive.engine.derivation import engine_derivation
from derive.engine.service import derive_engine, own_platform
from derive.engine.source import engine_files
from derive.store.local import LocalStore


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    """An engine's files, the store in which it was derived, its derivation id, its tree and where that is unpacked."""

    files: Mapping[str, bytes]
    store: Path
    derivation: Digest
    tree: Digest
    root: Path


def build_engine(store: Path) -> BuiltEngine:
    """Derive the running engine for this machine into a store; several processes at once build each thing once."""
    files = engine_files()
    derivation = engine_derivation(files, own_platform())
    with LocalStore(store) as opened:
        tree = derive_engine(files, own_platform(), opened, Options(jobs=2)).digest
        return BuiltEngine(files, store, derivation.id, tree, opened.folder(tree))
