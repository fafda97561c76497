# SPDX-License-Identifier: Apache-2.0
"""Which keys of a recipe moved between releases: where the texts are at hand, else that something did."""

from __future__ import annotations

from pathlib import Path

from derive.canonical import Json, sha256
from derive.records.model import Record
from derive.report.gather import gather
from derive.report.read import texts_at_hand
from derive.report.recipes import keys_moved
from support.releasing import commit, git
from support.reported import DAY, Records, release

BEFORE = b'# kept\nstop = 5\n[shapes.ring]\nwindow = 0.5\n[shapes.ring.environment]\nA = "1"\n'
AFTER = b'stop = 7\n[shapes.ring]\nwindow = 0.25\n[shapes.triangle]\ndoc = "three"\n'


def record(text: bytes, path: str = "recipes/demo.toml") -> Record:
    body: dict[str, Json] = {"texts": {path: sha256(text).hex}}
    return Record(kind="candidate", subject="demo-1", previous=None, body=body)


def moved(*at_hand: bytes) -> list[tuple[str, str | None, str | None]]:
    texts = {sha256(text).hex: text for text in at_hand}
    return [(one.what, one.before, one.after) for one in keys_moved("demo", record(BEFORE), record(AFTER), texts)]


def test_each_key_that_moved_is_named_with_both_values() -> None:
    assert moved(BEFORE, AFTER) == [
        ("stop", "5", "7"),
        ("shapes.ring.window", "0.5", "0.25"),
        ("shapes.ring.environment", "A = 1", None),
        ("shapes.triangle", None, "doc = three"),
    ]


def test_without_one_of_the_texts_no_key_is_named() -> None:
    assert moved(BEFORE) == moved(AFTER) == moved() == []


def test_a_text_that_lies_elsewhere_than_a_recipe_does_is_not_looked_for() -> None:
    texts = {sha256(text).hex: text for text in (BEFORE, AFTER)}
    assert list(keys_moved("../x", record(BEFORE, "recipes/../x.toml"), record(AFTER), texts)) == []


def test_texts_are_found_in_git_and_where_they_lie_and_the_page_names_the_keys(tmp_path: Path) -> None:
    records, file = Records(), tmp_path / "recipes" / "demo.toml"
    file.parent.mkdir()
    git(tmp_path, "init", "--quiet")
    for number, (text, moved) in enumerate(((BEFORE, ""), (AFTER, "recipe"))):
        found, facts = release("demo", moved=moved)
        texts: dict[str, Json] = {"recipes/demo.toml": sha256(text).hex}
        previous = f"demo-{number - 1}" if number else None
        records.candidate(f"demo-{number}", found, facts, number * DAY, previous, "why", texts)
        file.write_bytes(text)
        if not number:
            commit(tmp_path, "before")
    files = records.files
    at_hand = texts_at_hand(tmp_path, files)
    assert sorted(at_hand.values()) == sorted((BEFORE, AFTER))
    rows = [one.what for one in gather(files, at_hand).changes[0].rows if one.part == "recipe"]
    assert rows == ["demo", "stop", "shapes.ring.window", "shapes.ring.environment", "shapes.triangle"]
    assert [one.what for one in gather(files).changes[0].rows if one.part == "recipe"] == ["demo"]
