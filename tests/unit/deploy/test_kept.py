# SPDX-License-Identifier: Apache-2.0
"""What the operator's machine keeps of a site."""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import pytest

from derive.deploy.kept import MOST_LOGS, Kept
from derive.errors import CheckFailed, HostRefuses, InputErrors


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept.of("lab", {"XDG_DATA_HOME": str(tmp_path)})


def test_each_site_has_a_folder_of_its_own_in_the_users_data_folder(kept: Kept, tmp_path: Path) -> None:
    assert kept.folder == tmp_path / "derive" / "sites" / "lab"


def test_a_name_with_a_slash_stays_one_part_of_the_path(tmp_path: Path) -> None:
    folder = Kept.of("../other", {"XDG_DATA_HOME": str(tmp_path)}).folder
    assert folder.parent == tmp_path / "derive" / "sites"


def test_nothing_is_made_by_reading(kept: Kept) -> None:
    assert (kept.deploys(), kept.incidents(), dict(kept.facts())) == ((), (), {})
    assert not kept.folder.exists()


def test_incidents_are_a_chain_in_the_order_of_writing(kept: Kept) -> None:
    for decided in ("restart", "budget-spent"):
        kept.add_incident("probe", {"decided": decided})
    first, second = kept.incidents()
    assert (first.body["decided"], second.body["decided"]) == ("restart", "budget-spent")
    assert second.previous == first.digest
    assert first.kind == "incident"


def test_a_service_with_capitals_and_underscores_has_records_too(kept: Kept) -> None:
    path = kept.add_incident("DS_41f", {"service": "DS_41f"})
    assert path.name == "0001-ds-41f.json"
    assert kept.incidents()[0].body == {"service": "DS_41f"}


def test_an_edited_record_is_found(kept: Kept) -> None:
    first = kept.add_incident("probe", {"decided": "restart"})
    kept.add_incident("probe", {"decided": "restart"})
    first.write_bytes(first.read_bytes().replace(b'"restart"', b'"nothing"'))
    with pytest.raises(CheckFailed):
        kept.incidents()


def _add(folder: Path) -> None:
    for _ in range(5):
        Kept(folder=folder).add_incident("probe", {})


def test_two_that_write_at_once_make_one_chain(kept: Kept) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_add, args=(kept.folder,)) for _ in range(3)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert [one.exitcode for one in writers] == [0, 0, 0]
    assert len(kept.incidents()) == 15


def test_the_newest_facts_of_a_node_take_the_place_of_earlier_ones(kept: Kept) -> None:
    kept.write_facts("spark1", 5, {"kernel": "6.14"}, None)
    kept.write_facts("spark1", 9, {"kernel": "6.17"}, {"driver": "overlay2"})
    seen = kept.facts()["spark1"]
    assert (seen.seen_s, seen.facts, seen.engine) == (9, {"kernel": "6.17"}, {"driver": "overlay2"})


def test_a_clock_in_nanoseconds_can_be_kept(kept: Kept) -> None:
    kept.write_facts("spark1", 5, {"clock_ns": 1_796_058_607_000_000_000}, None)
    assert kept.facts()["spark1"].facts == {"clock_ns": 1_796_058_607_000_000_000}


def test_facts_that_cannot_be_read_are_as_if_they_were_not_there(kept: Kept) -> None:
    kept.write_facts("spark1", 5, {}, None)
    (kept.folder / "facts" / "spark2.json").write_text("{")
    (kept.folder / "facts" / "spark3.json").write_text('{"derive": "node-facts/1"}')
    assert list(kept.facts()) == ["spark1"]


def test_logs_lie_in_a_folder_named_by_time_service_and_why_for_the_user_alone(kept: Kept) -> None:
    logs = kept.new_logs("probe", "failed", 0)
    path = logs.write("spark1.log", b"said\n")
    assert path.relative_to(kept.folder) == Path("logs/19700101T000000Z-probe-failed/spark1.log")
    assert path.read_bytes() == b"said\n"
    assert stat.S_IMODE(kept.folder.stat().st_mode) == 0o700
    assert [one.name for one in logs.folder.iterdir()] == ["spark1.log"]


def test_two_failures_of_one_second_have_two_folders(kept: Kept) -> None:
    assert kept.new_logs("probe", "failed", 0).folder != kept.new_logs("probe", "failed", 0).folder


def test_the_oldest_logs_go_when_there_are_too_many(kept: Kept) -> None:
    for second in range(MOST_LOGS + 2):
        kept.new_logs("probe", "failed", second).write("spark1.log", b"")
    names = sorted(path.name for path in (kept.folder / "logs").iterdir())
    assert len(names) == MOST_LOGS
    assert names[0].startswith("19700101T000002Z")


def test_what_cannot_be_written_is_said_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "derive").write_text("")
    kept = Kept.of("lab", {"XDG_DATA_HOME": str(tmp_path)})
    with pytest.raises(HostRefuses) as caught:
        kept.write_facts("spark1", 1, {}, None)
    assert "spark1.json" in str(caught.value.where)


def test_a_name_of_nothing_that_fits_is_refused(kept: Kept) -> None:
    with pytest.raises(InputErrors):
        kept.new_logs("///", "failed", 0)


def test_the_newest_log_of_a_node_is_found_by_service(kept: Kept) -> None:
    assert kept.newest_log("spark1") is None
    for second, service in enumerate(("probe", "probe", "other")):
        kept.new_logs(service, "failed", second).write("spark1.log", service.encode())
    newest, of_probe = kept.newest_log("spark1"), kept.newest_log("spark1", "probe")
    assert newest is not None
    assert of_probe is not None
    assert newest.parent.name == "19700101T000002Z-other-failed"
    assert of_probe.parent.name == "19700101T000001Z-probe-failed"
    kept.new_logs("my-probe", "failed", 9).write("spark1.log", b"")
    assert kept.newest_log("spark1", "probe") == of_probe
    assert kept.newest_log("spark2") is None
