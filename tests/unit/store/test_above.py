# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.cache.rows import Substitution, drop_substituted, note_substituted
from derive.canonical import Digest, sha256
from derive.store.database import Database, Realisation

STEPS = {"tool": (), "library": ("tool",), "program": ("library",), "other": ()}
TOOL = sha256(b"resolved tool")
TRUTH = {"out": f"nar:{sha256(b'truth')}"}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with a program upon a library upon a tool, and something beside them, all realised."""
    database = Database(tmp_path / "derive.sqlite")
    for name, below in STEPS.items():
        document = {"builder": "script/1", "inputs": {one: {"derivation": sha256(one.encode()).hex} for one in below}}
        database.add_realisation(entry(name), sha256(name.encode()), name, json.dumps(document).encode())
    database.set_memo(sha256(b"image"), "a")
    yield database
    database.close()


def entry(name: str) -> Realisation:
    return Realisation(
        resolved=sha256(f"resolved {name}".encode()),
        outputs={"out": f"nar:{sha256(name.encode())}"},
        builder="script/1",
        engine="",
        host="",
        duration_ns=1,
        log="",
        built_s=1,
    )


def known(database: Database) -> set[str]:
    """Return the names of what is known to resolve to something."""
    found = database.resolved_ids(sha256(name.encode()) for name in STEPS)
    return {name for name in STEPS if sha256(name.encode()) in found}


def replace_tool(database: Database, outputs: dict[str, str]) -> None:
    database.replace_realisation(replace(entry("tool"), outputs=outputs), sha256(b"tool"), "tool", b'{"inputs":{}}')


def came(database: Database, resolved: Digest) -> None:
    note_substituted(database, Substitution(resolved=resolved, cache="team", signers={}, came_s=1))


def test_what_was_built_upon_what_came_is_forgotten_once_that_is_something_else(database: Database) -> None:
    came(database, TOOL)
    replace_tool(database, TRUTH)
    # A run that ends here leaves nothing by which the lie's image would be given.
    drop_substituted(database, TOOL)
    assert known(database) == {"tool", "other"}
    assert database.memo(sha256(b"image")) is None
    assert database.realisation(sha256(b"resolved library")) == entry("library")
    found = database.realisation(TOOL)
    assert found is not None
    assert found.outputs == TRUTH


def test_what_came_and_is_the_same_again_leaves_everything(database: Database) -> None:
    came(database, TOOL)
    replace_tool(database, dict(entry("tool").outputs))
    assert known(database) == set(STEPS)
    assert database.memo(sha256(b"image")) == "a"


def test_what_was_built_here_and_is_something_else_leaves_everything(database: Database) -> None:
    replace_tool(database, TRUTH)
    assert known(database) == set(STEPS)
