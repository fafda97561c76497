# SPDX-License-Identifier: Apache-2.0
"""An engine's source out of git.

Edge: git, a store.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest
from derive.engine.model import source_of
from derive.engine.past import keep_from_git
from derive.store.local import LocalStore

THEN = {"__init__.py": b'__version__ = "7.1"\n', "cli/main.py": b"print('then')\n"}
NOW = {**THEN, "cli/main.py": b"print('now')\n"}
UNKNOWN = "0" * 39 + "1"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    for files in (THEN, NOW):
        for path, data in files.items():
            file = root / "src/derive" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        _git(root, "init", "-q")
        _git(root, "add", "-A")
        _git(root, "-c", "user.name=a", "-c", "user.email=a@example", "commit", "-q", "-m", "one")
    return root


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_engine_of_the_records_commit_is_kept(repository: Path, store: LocalStore) -> None:
    nar = source_of(THEN).nar
    assert keep_from_git(store, repository, _git(repository, "rev-parse", "HEAD^"), nar)
    assert {path: b"".join(store.read(file)) for path, file in store.listing(nar).files()} == {
        path.encode(): data for path, data in THEN.items()
    }


@pytest.mark.parametrize("commit", ["HEAD^", UNKNOWN])
def test_one_that_another_commit_has_is_found_too(commit: str, repository: Path, store: LocalStore) -> None:
    named = commit if commit == UNKNOWN else _git(repository, "rev-parse", commit)
    assert keep_from_git(store, repository, named, source_of(NOW).nar)


def test_one_that_no_commit_has_is_not(repository: Path, store: LocalStore) -> None:
    assert not keep_from_git(store, repository, UNKNOWN, Digest("ab" * 32))
    assert not keep_from_git(store, repository.parent, UNKNOWN, Digest("ab" * 32))
