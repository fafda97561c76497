# SPDX-License-Identifier: Apache-2.0
"""Objects are read many at a time, and none is taken for another."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from derive.errors import Corrupt
from derive.git.program import Git, Session
from derive.git.reader import AbsentObject, ObjectReader
from support.git_server import Upstream


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "r.git")


def reader(upstream: Upstream) -> ObjectReader:
    return ObjectReader(Git(Session(), upstream.path))


def test_thousands_of_objects_come_in_the_order_asked_for(upstream: Upstream) -> None:
    names = [upstream.raw("blob", b"%d" % number * number) for number in (0, 1, 3)]
    big = upstream.raw("blob", bytes(range(256)) * 4096)
    with reader(upstream) as objects:
        found = [data[:3] for data in objects.read_all("blob", [*names * 700, big, *names])]
    assert found == [*[b"", b"1", b"333"] * 700, b"\x00\x01\x02", b"", b"1", b"333"]


def test_another_kind_and_an_absent_object_are_told(upstream: Upstream) -> None:
    blob = upstream.raw("blob", b"x")
    with reader(upstream) as objects, pytest.raises(Corrupt, match="another kind"):
        objects.read("tree", blob)
    with reader(upstream) as objects, pytest.raises(AbsentObject, match="a" * 40):
        objects.read("blob", "a" * 40)


def test_an_object_whose_bytes_are_not_its_ids_is_corrupt(upstream: Upstream) -> None:
    name = upstream.raw("blob", b"right")
    file = upstream.path / "objects" / name[:2] / name[2:]
    file.chmod(0o644)
    file.write_bytes(zlib.compress(b"blob 5\0wrong"))
    with reader(upstream) as objects, pytest.raises((Corrupt, AbsentObject)):
        objects.read("blob", name)
