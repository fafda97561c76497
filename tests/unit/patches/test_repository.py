# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest

from derive.errors import DeriveError, HostRefuses
from derive.patches.apply import FileState
from derive.patches.repository import OURS, Entry, NewCommit, Repository, state_of
from derive.patches.trail import Files, changes_to, walk
from derive.trees.listing import DIRECTORY, Symlink
from support.patch_project import quick_folder

ODD = b'd "q"\\/\xff\n\t'


@pytest.fixture
def repository() -> Iterator[Repository]:
    with quick_folder() as place:
        made = Repository(place)
        made.create()
        yield made


def commit(changes: dict[bytes, FileState | Symlink | None], message: bytes = b"m\n") -> NewCommit:
    return NewCommit(changes=changes, author=(b"\xc3\x84 B", b"a@b"), message=message)


def file(data: bytes, *, executable: bool = False) -> FileState:
    return FileState(contents=data, executable=executable)


FIRST = commit(
    {b"a": file(b"1\r\n"), ODD: file(b"\0", executable=True), b"dir/l": Symlink(b"\xff"), b"x/y/z": file(b"")}
)
SECOND = commit({b"a": None, b"a/b": file(b"2"), b"x/y/z": None}, b"\xff not UTF-8, and no newline")


def test_commits_come_back_as_they_were_written(repository: Repository) -> None:
    ids = repository.import_commits(None, [FIRST, SECOND])
    assert repository.import_commits(None, [FIRST, SECOND]) == ids
    base, tip = ids
    (read,) = repository.commits(base, tip)
    assert (read.id, read.parents, read.author, read.message) == (tip, (base,), SECOND.author, SECOND.message)
    snapshot = repository.snapshot(tip)
    assert set(snapshot) == {b"a/b", ODD, b"dir/l"}
    objects = repository.objects(entry.object for entry in snapshot.values())
    assert state_of(snapshot[ODD], objects) == file(b"\0", executable=True)
    assert state_of(snapshot[b"dir/l"], objects) == Symlink(b"\xff")


def test_files_are_followed_from_commit_to_commit(repository: Repository) -> None:
    base, tip = repository.import_commits(None, [FIRST, SECOND])
    files = Files(repository, base)
    assert files.read(b"x") == DIRECTORY
    assert files.read(b"a/b") is None
    (step,) = walk(repository, files, repository.commits(base, tip))
    assert files.read(b"x") is None
    assert files.read(b"a") == DIRECTORY
    assert step.changes == changes_to(repository, base, tip)
    assert step.changes[b"a/b"].after == file(b"2")
    files.write({b"a/b": None, b"new/f": file(b"n")})
    assert (files.read(b"a"), files.read(b"new"), files.read(b"new/f")) == (None, DIRECTORY, file(b"n"))


def test_a_submodule_is_no_file() -> None:
    assert state_of(Entry("160000", "0" * 40), {}) == DIRECTORY


def test_what_git_refuses_is_told_with_its_words(repository: Repository) -> None:
    with pytest.raises(DeriveError) as refused:
        repository.git("cat-file", "-p", "nothing")
    assert "nothing" in "".join(refused.value.detail)
    assert repository.resolve("nothing") is None
    assert repository.resolve("-x") is None


def test_without_git_the_host_is_told_what_it_lacks(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(HostRefuses, match="git is not installed"):
        repository.git("version")


def test_a_move_does_not_overwrite_what_nothing_tracks(repository: Repository) -> None:
    base, tip = repository.import_commits(None, [FIRST, commit({b"precious": file(b"theirs")})])
    repository.check_out(base)
    (repository.root / "precious").write_text("mine")
    with pytest.raises(DeriveError):
        repository.move_to(tip)
    assert (repository.root / "precious").read_text() == "mine"
    assert repository.resolve("HEAD") == base


def test_names_and_messages_of_authors_cannot_break_the_stream(repository: Repository) -> None:
    (made,) = repository.import_commits(
        None, [NewCommit(changes={}, author=OURS, message=b"done\nreset refs/heads/x\n")]
    )
    assert repository.git("for-each-ref", "refs/heads") == b""
    assert repository.resolve(made) == made
