# SPDX-License-Identifier: Apache-2.0
"""Launch files and units on a node held against those that were rendered."""

from __future__ import annotations

import pytest

from derive.canonical import sha256
from derive.deploy.compared import drop_in_folders, file_differences, guard_differences
from derive.deploy.effects import FileSeen
from derive.derivations.model import TreeOutput
from derive.releases.facts import ImageFacts, Realised
from derive.trees.listing import File, Listing
from derive.trees.nar import nar_digest
from support.released import facts_of, release_of

FOLDER = "/var/lib/derive/probe/current"
FILES = {"run": b"#!/bin/bash\n", "container.json": b"{}", "systemd/derive-probe.service": b"[Unit]\n"}
UNIT = "/etc/systemd/system/derive-probe.service"


def seen(**changed: bytes) -> dict[str, FileSeen]:
    """Return what is on a node: the files as rendered, but for what is said, by name."""
    there = {f"{FOLDER}/{path}": data for path, data in FILES.items()} | {UNIT: FILES["systemd/derive-probe.service"]}
    there |= {path: changed[path.rpartition("/")[2]] for path in there if path.rpartition("/")[2] in changed}
    return {path: FileSeen(path=path, data=data, size=len(data)) for path, data in there.items()}


def fields(found: dict[str, FileSeen], *, systemd: bool = True) -> list[str]:
    return [one.field for one in file_differences(FILES, FOLDER, found, systemd=systemd)]


def test_files_as_they_were_rendered_are_no_difference() -> None:
    assert fields(seen()) == []


def test_a_file_that_was_edited_is_one_difference_with_both_digests() -> None:
    (one,) = file_differences(FILES, FOLDER, seen(run=b"#!/bin/sh\n"), systemd=True)
    assert (one.field, one.expected, one.got) == ("files.run", str(sha256(FILES["run"])), str(sha256(b"#!/bin/sh\n")))


def test_a_file_that_is_not_there_is_a_difference() -> None:
    found = seen()
    del found[f"{FOLDER}/run"]
    (one,) = file_differences(FILES, FOLDER, found, systemd=True)
    assert (one.field, one.got) == ("files.run", None)


def test_a_file_that_is_too_long_to_be_read_whole_is_a_difference() -> None:
    found = seen()
    path = f"{FOLDER}/run"
    found[path] = FileSeen(path=path, data=FILES["run"], size=1 << 30)
    (one,) = file_differences(FILES, FOLDER, found, systemd=True)
    assert one.got == "1073741824 bytes"


def test_a_unit_that_was_edited_is_a_difference_of_its_own() -> None:
    found = seen()
    found[UNIT] = FileSeen(path=UNIT, data=b"[Service]\n", size=10)
    assert fields(found) == ["units.derive-probe.service"]


def test_units_that_were_removed_are_differences_where_there_is_systemd() -> None:
    found = seen()
    del found[UNIT]
    assert fields(found) == ["units.derive-probe.service"]
    assert fields(found, systemd=False) == []


@pytest.mark.parametrize(
    "path",
    [
        f"{UNIT}.d/override.conf",
        "/etc/systemd/system/derive-.service.d/limits.conf",
        "/run/systemd/system/derive-probe.service.d/x.conf",
        "/etc/systemd/system.control/derive-probe.service.d/50-MemoryMax.conf",
    ],
)
def test_a_drop_in_of_a_unit_is_one_too_many(path: str) -> None:
    found = seen()
    found[path] = FileSeen(path=path, data=b"[Service]\n", size=10)
    (one,) = file_differences(FILES, FOLDER, found, systemd=True)
    assert (one.field, one.expected, one.got) == (f"units.{path}", None, str(sha256(b"[Service]\n")))


def test_drop_ins_are_looked_for_by_all_beginnings_of_a_units_name_but_not_by_its_kind_alone() -> None:
    folders = drop_in_folders(["derive-probe-guard-steady.service", "derive-probe.slice"])
    here = sorted(path.rpartition("/")[2] for path in folders if path.startswith("/etc/systemd/system/"))
    assert here == [
        "derive-.service.d",
        "derive-.slice.d",
        "derive-probe-.service.d",
        "derive-probe-guard-.service.d",
        "derive-probe-guard-steady.service.d",
        "derive-probe.slice.d",
    ]


PROGRAM = b"\x7fELF a guard"


def _names(data: bytes) -> ImageFacts:
    """Return what a release says of an image whose guard was built as these bytes."""
    tree = Listing.of({b"usr/libexec/derive/memguard": File(executable=True, size=len(data), sha256=sha256(data))})
    built = Realised(
        name="memguard", builder="script/1", outputs={"out": TreeOutput(nar_digest(tree, lambda *_: [data]), "nar")}
    )
    facts = facts_of(release_of(sha256(b"image")), {sha256(b"memguard"): built})
    return facts.images["linux/amd64"]


def test_a_guard_that_was_put_in_the_place_of_the_releases_is_a_difference() -> None:
    def on_node(data: bytes) -> FileSeen:
        return FileSeen(path="memguard", data=data, size=len(data))

    assert list(guard_differences(on_node(PROGRAM), _names(PROGRAM))) == []
    (one,) = guard_differences(on_node(b"#!/bin/sh\n"), _names(PROGRAM))
    assert (one.field, one.expected != one.got) == ("guard.memguard", True)
    (gone,) = guard_differences(None, _names(PROGRAM))
    assert gone.got is None
