# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.errors import InputErrors
from derive.images.encoding import MEDIA_TYPE, Encoding
from derive.images.layer import LayerDescriptor, problems, write_layer
from derive.images.modes import ModeTable, Rule
from derive.store.memory import MemoryStore
from derive.trees.compose import select
from derive.trees.listing import Listing, Symlink
from derive.trees.pack import NewFile
from support.layers import FIELD, Given, archive, blob, raw_name, read_back, tree

TESTS = Path(__file__).parents[2]


def test_a_descriptor_states_the_blob_and_the_tar_inside_it() -> None:
    store = MemoryStore()
    listing = tree(store, FIELD)
    layer = write_layer(store, listing, ModeTable(), Encoding())
    data = blob(store, layer.blob)
    tar = archive(store, listing)
    assert (layer.size, layer.media_type) == (len(data), MEDIA_TYPE)
    assert sha256(data) == layer.blob
    assert gzip.decompress(data) == tar
    assert (layer.diff_id, layer.uncompressed_size) == (sha256(tar), len(tar))


def test_an_empty_tree_is_a_layer() -> None:
    store = MemoryStore()
    layer = write_layer(store, Listing.of({}), ModeTable(), Encoding())
    assert gzip.decompress(blob(store, layer.blob)) == bytes(1024)
    assert layer.uncompressed_size == 1024


def test_the_number_of_jobs_decides_no_byte() -> None:
    store = MemoryStore()
    listing = tree(store, {**FIELD, b"big": bytes(range(256)) * 20_000})
    assert len({write_layer(store, listing, ModeTable(), Encoding(), jobs=jobs) for jobs in (1, 2, 7)}) == 1


@pytest.mark.parametrize(
    ("change", "tar_moves"),
    [
        ({b"usr/share/empty": b"no more"}, True),
        ({b"usr/share/empty": NewFile(executable=True, chunks=[])}, True),
        ({b"bin": Symlink(b"usr/sbin")}, True),
        ({}, False),
    ],
)
def test_the_facts_of_the_tree_decide_the_layer(change: dict[bytes, Given], *, tar_moves: bool) -> None:
    store = MemoryStore()
    before = write_layer(store, tree(store, FIELD), ModeTable(), Encoding())
    after = write_layer(store, tree(store, {**FIELD, **change}), ModeTable(), Encoding())
    assert (before != after) is tar_moves


def test_a_mode_rule_moves_the_layer_and_a_level_only_the_blob() -> None:
    store = MemoryStore()
    listing = tree(store, FIELD)
    plain = write_layer(store, listing, ModeTable(), Encoding())
    ruled = write_layer(store, listing, ModeTable.of([Rule(path=b"tmp", mode=0o1777)]), Encoding())
    other = write_layer(store, listing, ModeTable(), Encoding(level=1))
    assert ruled.diff_id != plain.diff_id
    assert (other.diff_id, other.blob != plain.blob) == (plain.diff_id, True)


def test_a1_hard_links_or_copies_give_one_layer_in_whichever_order() -> None:
    store = MemoryStore()
    once = tree(store, {b"bin/name0": NewFile(executable=True, chunks=[b"perl"])})
    file = once[b"bin/name0"]
    names = [b"bin/name%d" % number for number in range(10)]
    linked = Listing.of(dict.fromkeys(names, file))
    copied = tree(store, {name: NewFile(executable=True, chunks=[b"perl"]) for name in reversed(names)})
    layers = {write_layer(store, listing, ModeTable(), Encoding()) for listing in (linked, copied)}
    assert len(layers) == 1
    members = read_back(gzip.decompress(blob(store, layers.pop().blob)))
    assert [(member.isreg(), member.size) for member in members[1:]] == [(True, 4)] * 10


def test_a8_two_layers_hold_only_their_own_paths_and_their_parents_once() -> None:
    store = MemoryStore()
    whole = tree(store, FIELD)
    modes = ModeTable.of([Rule(path=b"usr/share", mode=0o750)])
    found = []
    for paths in ([b"usr/bin", b"bin"], [b"usr/share/doc", b"usr/share/empty"]):
        layer = write_layer(store, select(whole, paths), modes, Encoding())
        found.append(read_back(gzip.decompress(blob(store, layer.blob))))
    assert [[raw_name(member) for member in members] for members in found] == [
        [b"bin", b"usr", b"usr/bin", b"usr/bin/tool"],
        [b"usr", b"usr/share", b"usr/share/doc", b"usr/share/doc/readme", b"usr/share/empty"],
    ]
    headers = [{(m.mode, m.mtime, m.uid) for m in members if m.name == "usr"} for members in found]
    assert headers == [{(0o755, 315532800, 0)}] * 2
    assert next(member for member in found[1] if member.name == "usr/share").mode == 0o750


A9_DIFF_ID = "sha256:c084dcc3bcd362394a9f3bae81468d46546d7f7914ec56a4bc1e73cb20a1e89b"
"""What `tar --format=ustar --owner=:0 --group=:0 --mtime=@315532800 --mode=0644 -b1 -c big | sha256sum` printed."""

A9 = """
import resource
from support.layers import Zeros, zeros
from derive.images.layer import write_layer
from derive.images.encoding import Encoding
from derive.images.modes import ModeTable
from derive.trees.listing import Listing
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
layer = write_layer(Zeros(), Listing.of({b"big": zeros(300_000_000)}), ModeTable(), Encoding(level=1), jobs=2)
print(layer.diff_id, layer.uncompressed_size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


A9_CARRIED = """
import resource
import zlib
from support.archives import Zip, put, zipped
from support.layers import zeros
from derive.images.carry import Wheel
from derive.images.encoding import Encoding
from derive.images.layer import write_layer
from derive.images.modes import ModeTable
from derive.store.memory import MemoryStore
from derive.trees.listing import Listing
squeeze, crc, chunk, packed = zlib.compressobj(1, zlib.DEFLATED, -15), 0, bytes(3000), []
for _ in range(100_000):
    packed.append(squeeze.compress(chunk) + squeeze.flush(zlib.Z_FULL_FLUSH))  # no archive may be a bomb
    crc = zlib.crc32(chunk, crc)
packed.append(squeeze.flush())
data = zipped(Zip(name=b"big", packed=b"".join(packed), method=8, size=300_000_000, crc=crc))
store, listing = MemoryStore(), Listing.of({b"big": zeros(300_000_000)})
wheel = Wheel(name="big.whl", archive=put(store, data), size=len(data), members=listing)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
layer = write_layer(store, listing, ModeTable(), Encoding(name="gzip-members/2"), wheels=[wheel], jobs=2)
print(layer.diff_id, layer.uncompressed_size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("program", [A9, A9_CARRIED], ids=["compressed", "carried"])
def test_a9_a_large_sparse_file_streams_in_constant_memory(program: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    diff_id, size, grown_kib = run.stdout.split()
    assert int(size) == 512 + 300_000_256 + 1024
    assert diff_id == A9_DIFF_ID
    assert int(grown_kib) < 40_000


SCRIPT = """
from support.layers import FIELD, image, tree
from derive.images.layer import write_layer
from derive.images.encoding import Encoding
from derive.images.modes import ModeTable, Rule
from derive.images.oci import ImageConfig
from derive.store.memory import MemoryStore
store = MemoryStore()
odd = {b"\\xff": b"x", "é".encode(): b"y", b"long/" * 60 + b"name": b"z"}
modes = ModeTable.of([Rule(path=b"tmp", mode=0o1777), Rule(path=b"bin", uid=3)])
for jobs in (1, 3):
    print(write_layer(store, tree(store, {**FIELD, **odd}), modes, Encoding(), jobs=jobs).to_document())
names = {f"NAME{n}": "x" for n in frozenset(range(20))}
config = ImageConfig(environment=names, labels=names, annotations=names, exposed_ports=tuple({"1", "2", "3", "4"}))
print(image(store, tree(store, FIELD), config=config))
"""


def test_neither_hash_seed_zone_locale_umask_nor_jobs_decide_a_byte(tmp_path: Path) -> None:
    outputs = set()
    for seed, zone, locale, umask in (("0", "UTC", "C", 0o022), ("1", "Asia/Kathmandu", "C.UTF-8", 0o077)):
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            check=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            umask=umask,
            env={"PYTHONPATH": str(TESTS), "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": locale, "HOME": f"/{seed}"},
        )
        one_job, three_jobs, digest = run.stdout.splitlines()
        assert one_job == three_jobs
        outputs.add((one_job, digest))
    assert len(outputs) == 1


def test_a_tree_that_is_one_file_is_no_layer() -> None:
    store = MemoryStore()
    with pytest.raises(InputErrors) as caught:
        write_layer(store, tree(store, {b"": b"x"}), ModeTable(), Encoding())
    assert caught.value.problems()[0].message == "a layer needs a folder, and this tree is one file"


def test_names_that_an_engine_takes_for_deletions_are_refused() -> None:
    store = MemoryStore()
    found = problems(tree(store, {b"a/.wh.b": b"", b"a/.wh..wh..opq": b"", b"a/x.wh.y": b""}), ModeTable(), where="w")
    assert [(problem.where, problem.message) for problem in found] == [
        ("w", "a/.wh..wh..opq: a container engine takes this name for a deletion"),
        ("w", "a/.wh.b: a container engine takes this name for a deletion"),
    ]
    many = problems(tree(store, {b".wh.%02d" % n: b"" for n in range(25)}), ModeTable())
    assert len(many) == 21
    assert many[-1].message == "25 names begin with .wh., the first 20 shown"


def test_a_mode_rule_that_does_not_fit_is_refused() -> None:
    store = MemoryStore()
    with pytest.raises(InputErrors, match="1 problem"):
        write_layer(store, tree(store, FIELD), ModeTable.of([Rule(path=b"bin", mode=0o700)]), Encoding())


def test_a_descriptor_survives_its_document() -> None:
    layer = LayerDescriptor(blob=sha256(b"a"), size=1, diff_id=sha256(b"b"), uncompressed_size=2)
    assert LayerDescriptor.from_document(layer.to_document()) == layer
    with pytest.raises(ValueError, match="size"):
        LayerDescriptor.from_document({**layer.to_document(), "size": "1"})
