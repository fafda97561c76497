# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from derive.buildkit.foreign import foreign_problems
from derive.canonical import EPOCH, Digest
from derive.store.local import LocalStore
from support.archives import put


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def layer(store: LocalStore, *members: tuple[str, dict[str, Any]]) -> Digest:
    """Put a layer into the store: names of members, and what is said of each besides."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, said in members:
            member = tarfile.TarInfo(name)
            member.mtime = EPOCH
            for key, value in said.items():
                setattr(member, key, value)
            archive.addfile(member)
    return put(store, packed.getvalue())


FOLDER = ("opt", {"type": tarfile.DIRTYPE})
LINK = ("lib", {"type": tarfile.SYMTYPE, "linkname": "opt"})


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([FOLDER, ("opt/.wh.b", {})], "/opt/.wh.b, which takes something away from the layers below"),
        ([("opt/a", {})], "/opt/a, whose folder the layer does not hold"),
        ([("a", {"mtime": 1700000000})], "/a, of another time than that of all images: 1700000000 seconds"),
        ([LINK, ("lib/a", {})], "/lib/a, whose folder is a link"),
        ([("a", {"pax_headers": {"SCHILY.xattr.user.x": "1"}})], "/a, with the attribute user.x"),
    ],
)
def test_what_a_builder_would_alter_is_named(
    store: LocalStore, members: list[tuple[str, dict[str, Any]]], why: str
) -> None:
    one = layer(store, *members)
    (problem,) = foreign_problems(store, [one], (), "images/a.toml: base")
    assert problem.message == f"its layer {one.short} has {why}"
    assert list(foreign_problems(store, [one], (one,), "images/a.toml: base")) == []


def test_a_path_through_a_link_of_a_lower_layer_is_named(store: LocalStore) -> None:
    layers = [layer(store, FOLDER, LINK), layer(store, ("lib", {"type": tarfile.DIRTYPE}), ("lib/a", {}))]
    (problem,) = foreign_problems(store, layers, (), "base")
    assert problem.message.endswith("/lib/a, whose folder is a link")


def test_layers_that_a_builder_copies_as_they_are_have_no_problem(store: LocalStore) -> None:
    capable = {"pax_headers": {"SCHILY.xattr.security.capability": "x"}}
    one = layer(store, ("./", {"type": tarfile.DIRTYPE, "mtime": 5}), FOLDER, ("opt/a", capable), LINK)
    assert list(foreign_problems(store, [one], (), "base")) == []
