# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.cache.rows import Substitution, drop_substituted, note_substituted, signers_text, substitutions
from derive.canonical import Digest, sha256
from derive.store.database import Database, Realisation
from derive.store.words import Word, keep_words, words

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


def word(name: str, says: str, below: tuple[str, ...] = ()) -> Word:
    """Return what a key says of a step that is not here."""
    document = {"builder": "script/1", "inputs": {one: {"derivation": sha256(one.encode()).hex} for one in below}}
    return Word(
        derivation=sha256(name.encode()),
        name=name,
        resolved=sha256(f"resolved {name}".encode()),
        outputs={"out": f"nar:{sha256(says.encode())}"},
        signers=(sha256(b"key"),),
        document=json.dumps(document).encode(),
    )


@pytest.fixture
def rests(tmp_path: Path) -> Iterator[Database]:
    """Return a database with a program alone, whose library and tool are known by others' word."""
    database = Database(tmp_path / "rests.sqlite")
    keep_words(database, [word("tool", "a lie"), word("library", "library", ("tool",))])
    document = {"builder": "script/1", "inputs": {"library": {"derivation": sha256(b"library").hex}}}
    database.add_realisation(entry("program"), sha256(b"program"), "program", json.dumps(document).encode())
    database.set_memo(sha256(b"image"), "a")
    yield database
    database.close()


def test_words_come_back_as_they_were_kept(rests: Database) -> None:
    kept = (word("tool", "a lie"), word("library", "library", ("tool",)))
    assert words(rests) == {one.derivation: one for one in kept}
    assert rests.has_substituted()


def test_what_was_found_by_a_word_is_forgotten_once_another_one_counts(rests: Database) -> None:
    keep_words(rests, [word("tool", "the truth")])
    assert known(rests) == set()
    assert words(rests) == {sha256(b"tool"): word("tool", "the truth")}
    assert rests.memo(sha256(b"image")) is None


def test_what_was_found_by_a_word_is_forgotten_once_the_step_gives_something_else_here(rests: Database) -> None:
    rests.add_realisation(entry("tool"), sha256(b"tool"), "tool", b'{"inputs":{}}')
    assert known(rests) == {"tool"}
    assert words(rests) == {}


def test_what_was_found_by_a_word_stays_once_the_step_gives_the_same_here(rests: Database) -> None:
    rests.add_realisation(entry("library"), sha256(b"library"), "library", b'{"inputs":{}}')
    assert known(rests) == {"library", "program"}
    assert set(words(rests)) == {sha256(b"tool")}
    assert rests.memo(sha256(b"image")) == "a"


def test_a_derivation_that_turns_out_to_mean_what_is_here_needs_no_word_any_more(rests: Database) -> None:
    rests.add_realisation(entry("other"), sha256(b"other"), "other", b'{"inputs":{}}')
    rests.map_derivation(sha256(b"tool"), "tool", entry("other").resolved, b'{"inputs":{}}')
    assert known(rests) == {"tool", "other"}
    assert words(rests) == {}


def test_what_came_is_kept_with_who_vouched_for_it_or_not_at_all(database: Database) -> None:
    lie = replace(entry("tool"), outputs=TRUTH)
    came(database, TOOL)
    with pytest.raises(sqlite3.Error):  # as when a run is killed there: nothing of it is kept
        database.replace_realisation(lie, sha256(b"tool"), "tool", b"{}", came=("team", object()))  # type: ignore[arg-type]
    assert substitutions(database)[TOOL].signers == {}
    found = database.realisation(TOOL)
    assert found is not None
    assert found.outputs == entry("tool").outputs
    database.replace_realisation(lie, sha256(b"tool"), "tool", b"{}", came=("team", signers_text({"ann": TOOL})))
    assert substitutions(database)[TOOL].signers == {"ann": TOOL}
