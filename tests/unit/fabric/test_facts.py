# SPDX-License-Identifier: Apache-2.0
"""What a machine says of its network: read from its /sys, carried as a record, read back the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from derive.cli.console import _format
from derive.errors import HostRefuses, InputErrors
from derive.fabric.facts import KIND, NodeFacts, read_facts
from derive.fabric.gather import gather
from derive.records.model import record
from support.fabrics import example_site
from support.golden import check_golden
from support.network_facts import facts_of_site, node, port, write_sys


def as_record(facts: NodeFacts) -> bytes:
    return json.dumps(record(KIND, facts.host, facts.body())).encode()


def test_a_machine_is_read_from_its_files_and_addresses(tmp_path: Path) -> None:
    facts = facts_of_site(example_site("ring4"))[1]
    printed = write_sys(tmp_path, facts)
    found = gather(tmp_path, lambda: printed, "spark2")
    assert found.devices == tuple(sorted(facts.devices, key=lambda one: one.name))
    assert found.interfaces == tuple(sorted(facts.interfaces, key=lambda one: one.name))
    assert found.unread == ()


def test_loopback_and_files_among_interfaces_are_no_interfaces(tmp_path: Path) -> None:
    printed = write_sys(tmp_path, node("a", "192.0.2.1", []))
    assert [one.name for one in gather(tmp_path, lambda: printed, "a").interfaces] == ["docker0", "enP7s7"]


def test_an_interface_that_is_down_has_no_carrier_and_one_that_says_nothing_is_unknown(tmp_path: Path) -> None:
    printed = write_sys(tmp_path, node("a", "192.0.2.1", []))
    (tmp_path / "class" / "net" / "enP7s7" / "carrier").unlink()
    found = {one.name: one.carrier for one in gather(tmp_path, lambda: printed, "a").interfaces}
    assert found == {"docker0": False, "enP7s7": None}


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    printed = write_sys(tmp_path, node("a", "192.0.2.1", [port("rocep1s0f0", "enp1s0f0np0", "10.12.1.1")]))
    (tmp_path / "class" / "net" / "enP7s7" / "mtu").unlink()
    found = gather(tmp_path, lambda: printed, "a")
    assert [one.mtu for one in found.interfaces if one.name == "enP7s7"] == [None]
    assert found.unread == (f"{tmp_path}/class/net/enP7s7/mtu: no such file or directory",)


def test_a_machine_without_rdma_has_no_devices(tmp_path: Path) -> None:
    printed = write_sys(tmp_path, node("a", "192.0.2.1", []))
    assert gather(tmp_path, lambda: printed, "a").devices == ()


def test_a_folder_without_interfaces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostRefuses):
        gather(tmp_path, lambda: b"[]", "a")


def test_addresses_in_another_form_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HostRefuses):
        gather(tmp_path, lambda: b"2: enP7s7: inet 192.0.2.1", "a")


def test_this_machine_can_be_read() -> None:
    assert gather().host


@pytest.mark.parametrize("cabling", ["triangle", "ring4"])
def test_facts_are_the_same_after_their_record(cabling: str) -> None:
    for facts in facts_of_site(example_site(cabling)):
        assert read_facts(as_record(facts), "a.json") == facts


def test_only_ipv4_of_roce_v2_counts_as_an_address() -> None:
    device = facts_of_site(example_site("ring4"))[0].devices[0]
    assert [gid.ipv4 for gid in device.gids] == [None, None, None, "10.12.1.1"]


def test_what_is_no_record_of_facts_is_refused_with_all_that_is_wrong() -> None:
    body = json.loads(as_record(facts_of_site(example_site("ring4"))[0]))
    body["kind"] = "site"
    body["body"]["interfaces"][0]["addresses"] = ["192.0.2.11", "300.0.0.1/24"]
    body["body"]["interfaces"][0]["mtu"] = "big"
    del body["body"]["devices"][0]["gids"]
    with pytest.raises(InputErrors) as caught:
        read_facts(json.dumps(body).encode(), "dgx1.json")
    check_golden("fabric/facts-bad.txt", "".join(f"{_format(one)}\n" for one in caught.value.problems()))


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b'{"derive": 1}', b"\xff", b"[" * 100_000])
def test_any_other_file_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(InputErrors) as caught:
        read_facts(data, "dgx1.json")
    assert all(one.where.startswith("dgx1.json") for one in caught.value.problems())


def test_an_interface_named_twice_is_refused() -> None:
    body = json.loads(as_record(facts_of_site(example_site("ring4"))[0]))
    body["body"]["interfaces"].append(body["body"]["interfaces"][0])
    with pytest.raises(InputErrors) as caught:
        read_facts(json.dumps(body).encode(), "a.json")
    assert caught.value.problems()[0].message == "enP7s7 is there twice"


EMPTY = NodeFacts(host="spark1", interfaces=(), devices=())


@pytest.mark.parametrize("gathered", [-1, 253_402_300_800, True, "now"])
def test_facts_of_no_time_are_refused(gathered: object) -> None:
    document = {**json.loads(as_record(EMPTY)), "subject": "spark1"}
    document["body"]["gathered_s"] = gathered
    with pytest.raises(InputErrors) as error:
        read_facts(json.dumps(document).encode(), "a.json")
    assert [one.where for one in error.value.problems()] == ["a.json: body.gathered_s"]


def test_facts_under_the_name_of_another_machine_are_refused() -> None:
    document = {**json.loads(as_record(EMPTY)), "subject": "spark2"}
    with pytest.raises(InputErrors) as error:
        read_facts(json.dumps(document).encode(), "a.json")
    (problem,) = error.value.problems()
    assert (problem.where, problem.detail) == ("a.json: subject", ("expected  spark1", "got       spark2"))
