# SPDX-License-Identifier: Apache-2.0
"""From a name, digest or prefix to a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.errors import Corrupt, InputErrors, Missing
from derive.records.chain import FOLDER
from derive.releases.find import find_release, known_releases
from support.chained import two_releases
from support.reported import Records


@pytest.fixture
def root(tmp_path: Path) -> Path:
    two_releases().write(tmp_path)
    return tmp_path


def test_a_release_is_found_by_name_and_by_digest_or_its_beginning(root: Path) -> None:
    known = find_release(root, "demo-2")
    digest = str(known.digest)
    assert known.release.digest == known.digest == known.facts.release
    assert known.entry.file == "0003-demo-2.json"
    for text in ("release:demo-2", digest, f"release:{digest}", known.digest.hex, known.digest.short):
        assert find_release(root, text) == known


def test_all_releases_are_known_in_their_order(root: Path) -> None:
    assert [known.name for known in known_releases(root)] == ["demo-1", "demo-2"]


@pytest.mark.parametrize("text", ["demo-3", "", "0" * 64, "0123456"])
def test_what_is_no_release_is_said(root: Path, text: str) -> None:
    with pytest.raises(InputErrors) as caught:
        find_release(root, text)
    assert caught.value.problems()[0].message == f"no release is called {text!r}"


def test_the_name_that_was_meant_is_named(root: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        find_release(root, "demo2")
    assert caught.value.problems()[0].hint is not None
    assert "did you mean demo-" in str(caught.value.problems()[0].hint)


def test_a_historical_record_is_no_release_to_derive(tmp_path: Path) -> None:
    records = Records()
    records.historical("r3")
    for path, data in records.files.items():
        target = tmp_path / "records" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    with pytest.raises(InputErrors) as caught:
        find_release(tmp_path, "r3")
    assert "is a historical record" in caught.value.problems()[0].message


def test_documents_that_were_edited_or_are_gone_are_not_believed(root: Path) -> None:
    file = root / FOLDER / "demo-1" / "facts.json"
    file.write_bytes(file.read_bytes().replace(b"layer-0", b"layer-9"))
    with pytest.raises(Corrupt) as edited:
        find_release(root, "demo-1")
    assert edited.value.where == "records/releases/demo-1/facts.json"
    assert len(edited.value.detail) == 2
    file.unlink()
    with pytest.raises(Missing):
        find_release(root, "demo-1")
    assert find_release(root, "demo-2").name == "demo-2"
