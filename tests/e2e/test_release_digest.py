# SPDX-License-Identifier: Apache-2.0
"""What the digest of a release is a function of: content that decides a byte, and nothing beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.auditing import bump_lock
from support.releasing import commit, released_project
from support.small import Small

RECIPE = "recipes/serve.toml"
PROMOTION = '\n[shapes.ring.promotion]\nlaunch-enabled = false\nbranch = "main"\n'


def appended(path: str, text: str) -> Callable[[Small], None]:
    return lambda small: small.write(path, (small.root / path).read_text() + text)


def written(path: str) -> Callable[[Small], None]:
    return lambda small: small.write(path, "x")


def written_in(small: Small) -> Path:
    small.write("README.md", "x")
    return small.root


STAYS: dict[str, Callable[[Small], object]] = {
    "a comment of a recipe": appended(RECIPE, "\n# more\n"),
    "keys of promotion": appended(RECIPE, PROMOTION),
    "the branch that deploys read": appended("pyproject.toml", '\n[tool.derive.deploy]\npublished-branch = "o/m"\n'),
    "a file of bench": written("bench/suite.toml"),
    "a test": written("tests/test_x.py"),
    "a record": written("records/benchmarks/x.json"),
    "a commit": lambda small: commit(written_in(small), "x"),
}
MOVES: dict[str, Callable[[Small], object]] = {
    "a lock": bump_lock,
    "a hunk": lambda small: small.edit("patches/hello/0001-greet.patch", "+hello, world", "+hello, all"),
    "a template": appended("render/run.j2", "# more\n"),
    "a key of a recipe": lambda small: small.edit(RECIPE, "64MiB", "65MiB"),
}


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Small, str]]:
    with released_project(tmp_path_factory.mktemp("digest")) as small:
        yield small, digest(small, "before")


def digest(small: Small, name: str) -> str:
    out = small.store.parent / f"out {name}"
    return small.here("release", "x", "--recipe", "serve", "--write-to", str(out)).answer


def changed(small: Small, folder: Path, change: Callable[[Small], object]) -> Small:
    """Return a copy of a project with a change, beside the same store."""
    shutil.copytree(small.root, folder)
    other = Small(folder, small.store, small.server, small.home)
    change(other)
    return other


@pytest.mark.parametrize("name", STAYS)
def test_what_decides_no_byte_moves_no_digest(derived: tuple[Small, str], tmp_path: Path, name: str) -> None:
    small, before = derived
    assert digest(changed(small, tmp_path / "small", STAYS[name]), name) == before


@pytest.mark.parametrize("name", MOVES)
def test_what_decides_a_byte_moves_the_digest(derived: tuple[Small, str], tmp_path: Path, name: str) -> None:
    small, before = derived
    assert digest(changed(small, tmp_path / "small", MOVES[name]), name) != before
