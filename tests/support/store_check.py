# SPDX-License-Identifier: Apache-2.0
"""Finds whether a store holds what it says it holds, after whatever was done to it.

Edge: reads the store.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from derive.build.execute import is_present
from derive.canonical import Digest, sha256
from derive.derivations.model import parse_output
from derive.store.local import LocalStore
from derive.store.memory import MemoryStore
from derive.trees.nar import nar_digest
from derive.trees.pack import add_members
from derive.trees.scan import scan_folder


def check_store(root: Path) -> None:
    """Open a store, and find every blob, listing, tree, realisation and tag to be what it is called."""
    with LocalStore(root) as store:
        for path in (root / "blobs" / "sha256").iterdir():
            assert sha256(path.read_bytes()).hex == path.name, f"a half blob: {path.name}"
        for path in (root / "listings").iterdir():
            digest = Digest(path.stem)
            assert store.has_tree(digest), f"a listing without its blobs: {path.name}"
            assert nar_digest(store.listing(digest), lambda _, file: store.read(file)) == digest
        for path in (root / "trees").iterdir():
            with scan_folder(path) as scan:
                memory = MemoryStore()
                assert memory.add_listing(add_members(memory, scan.members())).hex == path.name
        for _, outputs in rows(root, "SELECT resolved, outputs FROM realisations"):
            assert all(is_present(store, parse_output(text)) for text in json.loads(outputs).values())
        for entry in json.loads((root / "index.json").read_bytes())["manifests"]:
            assert store.has_blob(Digest.parse(entry["digest"]))
        own = 1  # where the store was not yet made
        assert len(list((root / "tmp").glob("*.lock"))) <= own, "what the dead left was not swept"
    assert list((root / "tmp").iterdir()) == []


def rows(root: Path, sql: str) -> list[tuple[Any, ...]]:
    """Read the store's database, if it has come so far as to be one."""
    if not (root / "derive.sqlite").exists():
        return []
    connection = sqlite3.connect(root / "derive.sqlite")
    try:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'realisations'").fetchall()
        return connection.execute(sql).fetchall() if tables else []
    finally:
        connection.close()


def realised(root: Path) -> int:
    """Return how many steps a store knows the outputs of."""
    return len(rows(root, "SELECT resolved FROM realisations"))
