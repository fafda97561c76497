# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.archives import unpack_wheel
from derive.canonical import Json
from derive.errors import Corrupt
from derive.store.local import LocalStore
from derive.trees.listing import File, Listing, Location
from derive.trees.pack import NewFile, add_members
from derive.verify import scan as scanning
from derive.verify.scan import probe, scan
from support.archives import Zip, ar, put, wheel
from support.elves import AARCH64, cubin, elf, fatbin

BIG = elf(AARCH64, soname="libbig.so", gpu=fatbin("sm_121a", "compute_120/9.0"), data=bytes(5 << 20))
FILES = {
    b"demo/_c.so": BIG,
    b"demo/small.so": elf(AARCH64, needed=("libc.so.6",)),
    b"demo/k.cubin": cubin("sm_90a"),
    b"demo/k.fatbin": fatbin("sm_120f"),
    b"demo/k.ptx": b"// a comment\n.version 9.2\n.target sm_103a\n.address_size 64\n",
    b"demo/no.ptx": b".version of nothing\n",
    b"demo/libd.a": ar((b"/", b""), (b"a.o/", elf(AARCH64)), (b"b.o/", elf(AARCH64))),
    b"demo/run": b"#!/usr/bin/env python3\n",
    b"demo/__init__.py": b"x = 1\n",
    b"demo/empty": b"",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as opened:
        yield opened


def deflated(store: LocalStore) -> Listing:
    return unpack_wheel(store, put(store, wheel(*(Zip(name=p, data=d) for p, d in FILES.items()))), name="w").listing


def raw(store: LocalStore) -> Listing:
    return add_members(store, [(path, NewFile(executable=False, chunks=[data])) for path, data in FILES.items()])


def documents(store: LocalStore, listing: Listing, place: Path, jobs: int = 1) -> dict[bytes, dict[str, Json]]:
    found = scan(store, listing, place, jobs=jobs)
    return {path: found[file.sha256.hex].document() for path, file in listing.files() if file.sha256.hex in found}


def test_each_kind_of_file_is_known_by_its_contents(store: LocalStore, tmp_path: Path) -> None:
    found = documents(store, deflated(store), tmp_path)
    gpu = {path: one["gpu"] for path, one in found.items() if "gpu" in one}
    assert gpu == {
        b"demo/_c.so": [{"for": ["compute_120/9.0", "sm_121a"], "count": 1}],
        b"demo/k.cubin": [{"for": ["sm_90a"], "count": 1}],
        b"demo/k.fatbin": [{"for": ["sm_120f"], "count": 1}],
        b"demo/k.ptx": [{"for": ["compute_103a/9.2"], "count": 1}],
    }
    assert found[b"demo/libd.a"] == {"objects": [{"machine": AARCH64, "bits": 64, "little": True}]}
    assert found[b"demo/run"] == {"script": "/usr/bin/env python3"}
    assert not {b"demo/__init__.py", b"demo/empty", b"demo/no.ptx"} & found.keys()
    assert found[b"demo-1.0.dist-info/METADATA"].keys() == {"wheel"}
    assert found[b"demo-1.0.dist-info/RECORD"].keys() == {"paths"}


def test_facts_depend_on_neither_jobs_nor_where_contents_lie(store: LocalStore, tmp_path: Path) -> None:
    packed = documents(store, deflated(store), tmp_path)
    again = documents(store, deflated(store), tmp_path, jobs=3)
    assert list(again.items()) == list(packed.items())
    plain = documents(store, raw(store), tmp_path)
    assert plain == {path: one for path, one in packed.items() if b".dist-info" not in path}


def test_the_head_of_a_file_is_read_alone(store: LocalStore) -> None:
    data = b"text\n" * 100_000
    listing = unpack_wheel(store, put(store, wheel(Zip(name=b"t", data=data))), name="w").listing
    file = listing[b"t"]
    assert isinstance(file, File)
    assert scanning.read_head(store, file, 12) == data[:12]


def test_an_elf_file_whose_contents_are_not_those_listed_is_damage(store: LocalStore, tmp_path: Path) -> None:
    file = deflated(store)[b"demo/_c.so"]
    assert isinstance(file, File)
    other = raw(store)[b"demo/run"]
    assert isinstance(other, File)
    with pytest.raises(Corrupt):
        probe(store, b"x", File(False, file.size, other.sha256, file.at), tmp_path)


def test_a_blob_that_is_shorter_than_its_listing_says_is_damage(store: LocalStore, tmp_path: Path) -> None:
    blob = put(store, BIG[:1000])
    file = File(False, len(BIG), blob, Location(blob, 0, len(BIG)))
    with pytest.raises(Corrupt, match="shorter"):
        probe(store, b"x", file, tmp_path)
