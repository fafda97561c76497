# SPDX-License-Identifier: Apache-2.0
"""Launch files and units on a node held against those that were rendered."""

from __future__ import annotations

from derive.canonical import sha256
from derive.deploy.compared import file_differences
from derive.deploy.effects import FileSeen

FOLDER = "/var/lib/derive/probe/current"
FILES = {"run": b"#!/bin/bash\n", "container.json": b"{}", "systemd/derive-probe.service": b"[Unit]\n"}
UNIT = "/etc/systemd/system/derive-probe.service"


def seen(**changed: bytes) -> dict[str, FileSeen]:
    """Return what is on a node: the files as rendered, but for what is said, by name."""
    there = {f"{FOLDER}/{path}": data for path, data in FILES.items()} | {UNIT: FILES["systemd/derive-probe.service"]}
    there |= {path: changed[path.rpartition("/")[2]] for path in there if path.rpartition("/")[2] in changed}
    return {path: FileSeen(path=path, data=data, size=len(data), changed_s=0) for path, data in there.items()}


def fields(found: dict[str, FileSeen]) -> list[str]:
    return [one.field for one in file_differences(FILES, FOLDER, found)]


def test_files_as_they_were_rendered_are_no_difference() -> None:
    assert fields(seen()) == []


def test_a_file_that_was_edited_is_one_difference_with_both_digests() -> None:
    (one,) = file_differences(FILES, FOLDER, seen(run=b"#!/bin/sh\n"))
    assert (one.field, one.expected, one.got) == ("files.run", str(sha256(FILES["run"])), str(sha256(b"#!/bin/sh\n")))


def test_a_file_that_is_not_there_is_a_difference() -> None:
    found = seen()
    del found[f"{FOLDER}/run"]
    (one,) = file_differences(FILES, FOLDER, found)
    assert (one.field, one.got) == ("files.run", None)


def test_a_file_that_is_too_long_to_be_read_whole_is_a_difference() -> None:
    found = seen()
    path = f"{FOLDER}/run"
    found[path] = FileSeen(path=path, data=FILES["run"], size=1 << 30, changed_s=0)
    (one,) = file_differences(FILES, FOLDER, found)
    assert one.got == "1073741824 bytes"


def test_a_unit_that_was_edited_is_a_difference_of_its_own() -> None:
    found = seen()
    found[UNIT] = FileSeen(path=UNIT, data=b"[Service]\n", size=10, changed_s=0)
    assert fields(found) == ["units.derive-probe.service"]


def test_nothing_is_said_of_units_where_none_is_installed() -> None:
    found = seen()
    del found[UNIT]
    assert fields(found) == []
