# SPDX-License-Identifier: Apache-2.0
"""All records held together, and what is refused where they are not as they were written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.errors import InputErrors
from derive.records.chain import FOLDER
from derive.records.held import NotHeld, hold, keys_held, require_held, vouched
from derive.trust.folder import add_event
from derive.trust.history import FOLDER as KEYS
from derive.trust.history import REVOKED, revoked_body
from support.chained import two_releases
from support.releasing import commit, git


def revoke(root: Path, name: str) -> Path:
    body = revoked_body(sha256(name.encode()), releases=None, why="stolen", since_s=None, revoked_s=1_800_000_000)
    return add_event(root, REVOKED, name, body)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    two_releases().write(tmp_path)
    revoke(tmp_path, "ann")
    certificate = tmp_path / "records/certificates/demo-1/0123.dsse.json"
    certificate.parent.mkdir(parents=True)
    certificate.write_bytes(b"{}")
    commit(tmp_path, "records")
    return tmp_path


def told(root: Path) -> list[tuple[str, str]]:
    return [(one.where, one.message.partition(",")[0]) for one in hold(root).problems]


def test_records_that_are_as_they_were_committed_are_held(root: Path) -> None:
    assert hold(root).problems == ()
    require_held(root)
    assert vouched(root) is None
    assert keys_held(root) is None


@pytest.mark.parametrize("file", [f"{KEYS}/0001-ann.json", "records/certificates/demo-1/0123.dsse.json"])
def test_what_is_gone_that_a_commit_has_is_found_and_nobody_vouches(root: Path, file: str) -> None:
    (root / file).unlink()
    assert told(root) == [(file, "gone")]
    for refuse in (vouched, *((keys_held,) if file.startswith(KEYS) else ())):
        with pytest.raises(NotHeld) as caught:
            refuse(root)
        assert (caught.value.exit_code, [one.where for one in caught.value.problems()]) == (1, [file])
    with pytest.raises(InputErrors):
        require_held(root)


def test_a_revocation_that_another_took_the_place_of_is_found(root: Path) -> None:
    (root / KEYS / "0001-ann.json").unlink()
    revoke(root, "eve")
    assert told(root) == [(f"{KEYS}/0001-ann.json", "gone")]


def test_a_revocation_that_is_gone_by_a_commit_is_found_too(root: Path) -> None:
    (root / KEYS / "0001-ann.json").unlink()
    commit(root, "nothing to see")
    assert told(root) == [(f"{KEYS}/0001-ann.json", "gone")]


def test_an_event_that_was_put_after_another_branch_s_is_not_gone(root: Path) -> None:
    mine = revoke(root, "ben")
    commit(root, "mine")
    mine.unlink()
    revoke(root, "cat")
    revoke(root, "ben")
    assert told(root) == []


def test_the_last_record_edited_after_its_commit_holds_up_what_would_follow_it(root: Path) -> None:
    file = root / FOLDER / "0004-demo-1-retired.json"
    file.write_bytes(file.read_bytes().replace(b"a node hung", b"a whim was"))
    assert hold(root).records == (), "the chain alone does not tell"
    with pytest.raises(InputErrors) as caught:
        require_held(root)
    (problem,) = caught.value.problems()
    assert problem.where == f"{FOLDER}/0004-demo-1-retired.json"
    assert problem.message.startswith("other than commit ")


def test_of_two_records_of_one_number_it_is_ours_that_goes_after_what_was_published(root: Path) -> None:
    toml = '[tool.derive]\nname = "demo"\n[tool.derive.deploy]\npublished-branch = "origin/main"\n'
    (root / "pyproject.toml").write_text(toml)
    theirs, ours = two_releases(), two_releases()
    published = theirs.add("observed", "lab", {"nodes": {}, "observed_s": 1})
    theirs.write(root)
    commit(root, "theirs")
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD")
    mine = ours.retire("demo-2")
    assert mine < published, "by name alone it is the other that goes"
    ours.write(root)
    assert [(one.where, one.hint) for one in hold(root).records] == [
        (f"{FOLDER}/{mine}", f"put it after all others: derive records renumber {mine.removesuffix('.json')}")
    ]
    # What has the name of a published record and says something else is ours.
    (root / FOLDER / published).write_bytes((root / FOLDER / published).read_bytes().replace(b"1}", b"2}"))
    assert {one.detail[1] for one in hold(root).records if len(one.detail) > 1} == {"published none of them"}


def test_a_release_that_was_not_finished_holds_nothing_up(root: Path) -> None:
    (root / FOLDER / "demo-3").mkdir()
    (root / FOLDER / "demo-3/release.json").write_bytes(b"{}")
    require_held(root)
    assert told(root) == [(f"{FOLDER}/demo-3/release.json", "no record names this file")]


def _link(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [_link, os.mkfifo, Path.mkdir])
@pytest.mark.parametrize(
    "file", [f"{FOLDER}/0002-demo-1-ring.json", f"{FOLDER}/demo-1/facts.json", f"{KEYS}/0001-ann.json"]
)
def test_what_is_no_file_is_one_finding_among_the_others(root: Path, file: str, make: object) -> None:
    (root / file).unlink()
    make(root / file)  # type: ignore[operator]
    other = root / FOLDER / "demo-2/facts.json"
    other.write_bytes(other.read_bytes() + b" ")
    found = [one.where for one in hold(root).problems]
    assert found.count(file) == 1
    assert set(found) == {file, f"{FOLDER}/demo-2/facts.json"}


def test_without_git_it_is_said_that_nothing_was_held_against_it(tmp_path: Path) -> None:
    two_releases().write(tmp_path)
    assert hold(tmp_path).problems == ()
    assert "not a git repository" in (vouched(tmp_path) or "")
    assert "not a git repository" in (keys_held(tmp_path) or "")
