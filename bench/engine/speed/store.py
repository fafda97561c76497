# SPDX-License-Identifier: Apache-2.0
"""How long it takes to check a store, to collect it, and to add a folder that is known.

Edge: processes, stores.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from derive.canonical import Digest, sha256
from derive.derivations.model import BuiltInput, Derivation, FixedInput, FlatOutput, Output, TreeOutput
from derive.store.listings import dump_listing
from derive.store.local import LocalStore
from derive.store.scancache import add_folder_cached
from derive.trees.listing import File, Listing, Location
from derive.trees.materialise import remove_folder
from derive.trees.nar import nar_digest
from speed.measure import Sample, Samples, command, in_child, settled
from speed.measure import interleaved as take
from speed.nix import Nix, find_nix
from speed.scratch import Bench, remember
from speed.table import AtLeast, AtMost, Factor, Rate, Row, Time, median_time

GROUP = "the store"
OUTPUTS = (2_500, 10_000)
"""Outputs that nothing needs: half of them artifacts, half trees, each with a pack of its own."""

BLOBS, BLOB = 8, 256 << 20
FILES = 5_000

_VERIFY = AtLeast(Rate(1_500_000_000))
_COLLECT = AtMost(Time(3_000_000_000))
_LINEAR = AtMost(Factor(1.5))
_ROUNDS = 5


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Measure each beside what does the same: ``sha256sum``, Nix, ``git status``."""
    return [*_verifying(setting, note), *_collecting(setting, note), *_adding(setting, note)]


def _verifying(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    store = setting.new_path("large")
    note(f"store: checking {BLOBS * BLOB >> 20} MiB in {BLOBS} blobs, and the store of {setting.name}")
    paths = large_blobs(store, BLOBS, BLOB)
    share = -(-len(paths) // setting.jobs)
    sums = ["xargs", "-P", str(setting.jobs), "-n", str(share), "-a", str(_list(setting, paths)), "sha256sum"]
    taken = take(
        {
            "large": lambda: _derive(setting, store, "verify"),
            "sums": lambda: command(sums),
            "image": lambda: _derive(setting, setting.store, "verify"),
        },
        max(setting.rounds, _ROUNDS),
    )
    remove_folder(store)
    bytes_of = {"large": BLOBS * BLOB, "image": _hashed(setting)}
    rows = [
        Row(
            group=GROUP,
            what=f"derive store verify, {BLOBS * BLOB >> 20} MiB in {BLOBS} blobs",
            amount=median_time(taken["large"].wall_ns),
            beside=f"sha256sum, {setting.jobs} at once",
            other=median_time(taken["sums"].wall_ns),
            samples=taken["large"].wall_ns,
        )
    ]
    for key, what in (("large", "the same"), ("image", f"derive store verify, the store of {setting.name}")):
        rate = Rate(round(bytes_of[key] * 1e9 / median_time(taken[key].wall_ns).ns))
        rows.append(
            Row(group=GROUP, what=f"{what}: bytes hashed", amount=rate, target=_VERIFY if key == "large" else None)
        )
    return rows


def _derive(setting: Bench, store: Path, *arguments: str) -> Sample:
    derive = Path(sys.executable).with_name("derive")
    return command([derive, "store", *arguments, "--store", store, "--jobs", str(setting.jobs)])


def _list(setting: Bench, paths: list[Path]) -> Path:
    names = setting.new_path("names")
    names.write_text("".join(f"{path}\n" for path in paths))
    return names


def _hashed(setting: Bench) -> int:
    derive = Path(sys.executable).with_name("derive")
    done = subprocess.run(
        [derive, "store", "verify", "--json", "--store", setting.store], capture_output=True, check=True
    )
    return int(json.loads(done.stdout)["body"]["hashed_bytes"])


def large_blobs(root: Path, count: int, size: int) -> list[Path]:
    """Make a store that holds some large blobs, and return their files."""
    with LocalStore(root) as store:
        for number in range(count):
            with store.blob_writer() as writer:
                piece = sha256(b"%d" % number).hex.encode() * (1 << 14)
                for _ in range(size // len(piece)):
                    writer.write(piece)
                writer.commit()
    return sorted((root / "blobs" / "sha256").iterdir())


def _collecting(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    cases: dict[str, Callable[[], Sample]] = {}
    for outputs in OUTPUTS:
        note(f"store: collecting {outputs:,} outputs")
        template = setting.new_path("garbage")
        fill(template, outputs)
        cases[f"derive {outputs}"] = _collect_case(setting, template)
    nix = find_nix(setting.new_path("nix"))
    if isinstance(nix, Nix):
        cases["nix"] = _nix_case(setting, nix)
    else:
        note(f"nix: {nix}")
    taken = take(cases, setting.rounds)
    few, many = (median_time(taken[f"derive {outputs}"].wall_ns) for outputs in OUTPUTS)
    other = median_time(taken["nix"].wall_ns) if "nix" in taken else None
    return [
        Row(
            group=GROUP,
            what=f"derive store gc of {OUTPUTS[-1]:,} outputs",
            amount=many,
            beside="" if other is None else "nix-store --gc of as many",
            other=other,
            target=_COLLECT,
            samples=taken[f"derive {OUTPUTS[-1]}"].wall_ns,
        ),
        Row(
            group=GROUP,
            what=f"time an output, {OUTPUTS[-1]:,} over {OUTPUTS[0]:,}",
            amount=Factor(many.ns * OUTPUTS[0] / (few.ns * OUTPUTS[-1])),
            target=_LINEAR,
        ),
    ]


def _collect_case(setting: Bench, template: Path) -> Callable[[], Sample]:
    def case() -> Sample:
        copy = setting.new_path("collected")
        shutil.copytree(template, copy)
        sample = settled(lambda: _derive(setting, copy, "gc"))
        if list((copy / "blobs" / "sha256").iterdir()):
            raise AssertionError("not everything was collected")
        remove_folder(copy)
        return sample

    return case


def _nix_case(setting: Bench, nix: Nix) -> Callable[[], Sample]:
    files = setting.new_path("files")
    files.mkdir()
    for number in range(OUTPUTS[-1]):
        (files / f"output-{number}").write_bytes(b"contents %d" % number)
    nix.add(sorted(files.iterdir()))
    template = setting.new_path("nix-garbage")
    shutil.copytree(nix.folder / "store", template, symlinks=True)

    def case() -> Sample:
        remove_folder(nix.folder / "store")
        shutil.copytree(template, nix.folder / "store", symlinks=True)
        return settled(nix.collect)

    return case


def fill(root: Path, outputs: int) -> None:
    """Make a store with so many outputs that no root needs, half of them artifacts and half trees."""
    with LocalStore(root) as store:
        made: list[tuple[Derivation, dict[str, Output], Output]] = []
        for number in range(outputs // 2):
            archive = _put(store, b"archive %d" % number)
            fetch = _step("fetch-deb", number, {"sha256": archive.hex})
            made.append((fetch, {}, FlatOutput(archive)))
            tree = TreeOutput(_tree(store, b"contents %d" % number))
            step = _step("unpack", number, {"kind": "deb"}, FixedInput(fetch))
            made.append((step, {"from": FlatOutput(archive)}, tree))
        remember(store, made)


def _step(builder: str, number: int, arguments: Mapping[str, str], source: FixedInput | None = None) -> Derivation:
    inputs: dict[str, FixedInput | BuiltInput] = {} if source is None else {"from": source}
    return Derivation(
        name=f"{builder}-{number}",
        builder=builder,
        version=1,
        build="any",
        host="any",
        arguments=arguments,
        inputs=inputs,
    )


def _put(store: LocalStore, data: bytes) -> Digest:
    """Put a blob in place without the care that a store takes: tens of thousands of syncs would take minutes."""
    digest = sha256(data)
    (store.root / "blobs" / "sha256" / digest.hex).write_bytes(data)
    return digest


def _tree(store: LocalStore, data: bytes) -> Digest:
    pack = _put(store, data)
    listing = Listing.of({b"usr/file": File(False, len(data), pack, Location(pack, 0, len(data)))})
    tree = nar_digest(listing, lambda *_: [data])
    (store.root / "listings" / f"{tree.hex}.json").write_bytes(dump_listing(listing))
    store.database.add_tree(tree, [pack])
    return tree


def _adding(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    folder, store = setting.new_path("work"), setting.new_path("known")
    work_tree(folder, FILES)
    note(f"store: adding a folder of {FILES:,} files again")
    time.sleep(2.5)  # until its times have settled
    add(store, folder)
    cases: dict[str, Callable[[], Sample]] = {
        "add": lambda: in_child(lambda: add(store, folder))[0],
        "stat": lambda: in_child(lambda: stat_all(folder))[0],
    }
    if shutil.which("git") is not None:
        git = ["git", "-C", str(folder)]
        command([*git, "init", "--quiet"])
        command([*git, "add", "."])
        cases["git"] = lambda: command([*git, "status", "--porcelain", "--untracked-files=all"])
    taken: Mapping[str, Samples] = take(cases, max(setting.rounds, _ROUNDS))
    mine = median_time(taken["add"].wall_ns)
    names = {"stat": "os.walk and lstat of each", "git": "git status"}
    return [
        Row(
            group=GROUP,
            what=f"add a known folder of {FILES:,} files",
            amount=mine,
            beside=names[key],
            other=median_time(taken[key].wall_ns),
            samples=taken["add"].wall_ns,
        )
        for key in names
        if key in taken
    ]


def work_tree(folder: Path, files: int) -> None:
    """Make a folder of so many small files, fifty in each folder below it."""
    for number in range(files):
        path = folder / f"folder-{number // 50}" / f"file-{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"line %d\n" % number * 100)


def add(store: Path, folder: Path) -> str:
    """Add a folder to a store as derive does, and return the tree's digest."""
    with LocalStore(store) as opened:
        return str(add_folder_cached(opened, folder, but=[b".git"]))


def stat_all(folder: Path) -> int:
    """Look at each file below a folder in the plainest way; return how many there are."""
    count = 0
    for above, _, names in os.walk(folder):
        for name in names:
            os.lstat(os.path.join(above, name))  # noqa: PTH118 - the yardstick is not to carry pathlib
            count += 1
    return count
