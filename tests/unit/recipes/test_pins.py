# SPDX-License-Identifier: Apache-2.0
"""Which checkpoint a recipe serves, by its lock."""

from __future__ import annotations

import json

import pytest

from derive.errors import Problem
from derive.recipes.pins import read_pin
from derive.recipes.resolved import ModelPin

WHERE = "recipes/small.toml: model.huggingface"
COMMIT = "a" * 40
WISH = f"""\
kind = "upstreams"
[huggingface.one]
repository = "owner/name"
revision = "{COMMIT}"
licence = "MIT"
[huggingface.moving]
repository = "owner/name"
revision = "main"
[huggingface.open]
repository = "owner/other"
unpinned = "nobody says which"
"""
ENTRIES = [
    {"type": "huggingface", "name": "one", "repository": "owner/name", "revision": COMMIT},
    {"type": "huggingface", "name": "moving", "repository": "owner/name", "revision": "b" * 40},
    {"type": "huggingface", "name": "open", "repository": "owner/other", "revision": None, "unpinned": "nobody says"},
    {"type": "git", "name": "code"},
]


def files(wish: str = WISH, entries: object = ENTRIES) -> dict[str, bytes]:
    return {"lock/model.toml": wish.encode(), "lock/model.lock.json": json.dumps({"entries": entries}).encode()}


def pin_of(name: str) -> ModelPin:
    pin, problems = read_pin(files(), "model", name, WHERE)
    assert problems == ()
    assert pin is not None
    return pin


def problem_of(name: str = "one", **others: str) -> Problem:
    pin, (problem,) = read_pin(files(**others), "model", name, WHERE)
    assert pin is None
    return problem


def test_a_pin_has_the_revision_of_the_lock_and_the_folder_of_the_cache() -> None:
    assert pin_of("one") == ModelPin(
        name="one", repository="owner/name", folder="models--owner--name", revision=COMMIT, unpinned=None
    )
    assert pin_of("moving").revision == "b" * 40


def test_a_checkpoint_that_nobody_has_pinned_says_why() -> None:
    pin = pin_of("open")
    assert (pin.revision, pin.unpinned) == (None, "nobody says")


def test_a_name_that_the_lock_has_not_is_told_with_the_nearest() -> None:
    problem = problem_of("on")
    assert (problem.where, problem.hint) == (WHERE, "did you mean one?")
    assert problem_of("entirely-different").hint == "derive lock model"


def test_an_entry_of_another_kind_is_no_checkpoint() -> None:
    assert problem_of("code").message == "no huggingface entry 'code' in lock/model.lock.json"


def test_a_set_that_is_not_locked_is_told() -> None:
    pin, (problem,) = read_pin({"lock/model.toml": WISH.encode()}, "model", "one", WHERE)
    assert (pin, problem.where, problem.hint) == (None, WHERE, "derive lock model")
    assert problem.message == "nothing is locked: no lock/model.lock.json"


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [(COMMIT, "c" * 40, "revision"), ('"owner/name"\nrevision = "aaa', '"owner/moved"\nrevision = "aaa', "repository")],
)
def test_a_wish_that_moved_since_is_told_with_both(old: str, new: str, key: str) -> None:
    problem = problem_of(wish=WISH.replace(old, new))
    assert problem.where == f"lock/model.toml: huggingface.one.{key}"
    assert problem.detail[0].startswith("expected  ")
    assert problem.hint == "derive lock model"


def test_a_wish_that_no_longer_asks_for_it_is_told() -> None:
    problem = problem_of(wish='kind = "upstreams"')
    assert problem.message == "the lock has 'one', which is no longer asked for"


def test_a_lock_that_cannot_be_read_is_told() -> None:
    pin, (problem,) = read_pin({"lock/model.lock.json": b"{"}, "model", "one", WHERE)
    assert pin is None
    assert (problem.where, problem.message.partition(":")[0]) == ("lock/model.lock.json", "not a lock file")
