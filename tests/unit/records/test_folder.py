# SPDX-License-Identifier: Apache-2.0
"""The chain on disk: appended to by one at a time, each record there whole or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from derive.canonical import Json
from derive.errors import InputErrors
from derive.records.chain import FOLDER, read_chain, verify
from derive.records.folder import append, files_below, load, write_new
from support.chained import two_releases

OBSERVED: dict[str, Json] = {"nodes": {}, "observed_s": 1}


def test_a_project_without_records_has_an_empty_chain(tmp_path: Path) -> None:
    assert load(tmp_path).entries == ()


def test_an_appended_record_follows_the_last_and_is_sound(tmp_path: Path) -> None:
    first = append(tmp_path, "observed", "lab", OBSERVED)
    second = append(tmp_path, "observed", "lab", OBSERVED, "again")
    assert [first.name, second.name] == ["0001-lab.json", "0002-lab-again.json"]
    chain = load(tmp_path)
    assert chain.entries[1].record.previous == chain.entries[0].digest
    assert verify(chain, files_below(tmp_path)) == []
    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == [first.name, second.name]


def test_nothing_is_appended_to_a_chain_that_is_broken(tmp_path: Path) -> None:
    two_releases().write(tmp_path)
    file = tmp_path / FOLDER / "0001-demo-1.json"
    file.write_bytes(file.read_bytes().replace(b"Ada", b"Eve"))
    with pytest.raises(InputErrors) as caught:
        append(tmp_path, "observed", "lab", OBSERVED)
    assert "edited since it was written" in caught.value.problems()[0].message
    assert not (tmp_path / FOLDER / "0005-lab.json").exists()


@pytest.mark.parametrize(
    ("subject", "body"), [("Lab", OBSERVED), ("lab", {"nodes": {}}), ("lab", {"nodes": {}, "observed_s": "1"})]
)
def test_a_record_that_would_be_wrong_is_not_written(tmp_path: Path, subject: str, body: dict[str, Json]) -> None:
    with pytest.raises(InputErrors):
        append(tmp_path, "observed", subject, body)
    assert files_below(tmp_path) == {}


def test_several_who_append_at_once_each_get_a_number(tmp_path: Path) -> None:
    threads = [threading.Thread(target=append, args=(tmp_path, "observed", f"lab{n}", OBSERVED)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chain = load(tmp_path)
    assert [entry.number for entry in chain.entries] == list(range(1, 9))


def test_what_a_killed_process_left_unfinished_is_no_record_and_goes(tmp_path: Path) -> None:
    left = tmp_path / FOLDER / ".0001-lab.json.0123456789abcdef.partial"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"{")
    assert load(tmp_path).entries == ()
    append(tmp_path, "observed", "lab", OBSERVED)
    assert not left.exists()


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_new(file, b"first")
    with pytest.raises(InputErrors):
        write_new(file, b"second")
    assert file.read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_link_among_the_records_is_refused_by_its_path(tmp_path: Path) -> None:
    two_releases().write(tmp_path)
    (tmp_path / FOLDER / "0005-x.json").symlink_to("0001-demo-1.json")
    with pytest.raises(InputErrors) as caught:
        files_below(tmp_path)
    assert [one.where for one in caught.value.problems()] == ["records/releases/0005-x.json"]


def test_the_bytes_on_disk_are_the_canonical_ones_and_a_line_feed(tmp_path: Path) -> None:
    path = append(tmp_path, "observed", "lab", OBSERVED)
    (entry,) = read_chain(files_below(tmp_path)).entries
    assert path.read_bytes() == entry.record.encoded() + b"\n"
