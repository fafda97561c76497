# SPDX-License-Identifier: Apache-2.0
"""Stores to measure with: one that holds an image's fetches and nothing else, as often as it is needed.

Edge: the file system. Scratch folders lie beside the store, so that blobs are linked and not copied.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from derive.build.plan import resolved_of
from derive.build.service import evaluate, plan_for
from derive.canonical import Digest
from derive.derivations.model import Derivation, Output, TreeOutput, closure
from derive.project import Project, load_project
from derive.store.database import Realisation
from derive.store.layout import FOLDERS
from derive.store.listings import blobs_of
from derive.store.local import LocalStore
from derive.trees.listing import Listing
from derive.trees.materialise import remove_folder
from speed.measure import CannotMeasureError


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all measurements are given.

    ``store`` holds the image ``name`` of the project ``root``, whose last step is ``target``; it is not changed.
    ``scratch`` is an empty folder on the same file system; ``jobs`` how many things the engine may do at once.
    """

    root: Path
    store: Path
    name: str
    target: Derivation
    scratch: Path
    jobs: int
    rounds: int

    def new_path(self, name: str) -> Path:
        """Return a path in the scratch folder where nothing is yet."""
        return next(path for n in count() if not (path := self.scratch / f"{name}-{n}").exists())

    @property
    def project(self) -> Project:
        """The project, read anew."""
        return load_project(self.root)


@contextmanager
def bench(root: Path, store: Path, name: str, *, jobs: int, rounds: int) -> Iterator[Bench]:
    """Derive the image where it is not there yet, and set up; the scratch folder goes at the end.

    Raises:
        CannotMeasureError: when the image cannot be derived.
    """
    target = evaluate(load_project(root), f"image:{name}", None)
    with LocalStore(store) as opened:
        done = plan_for(target, opened, None).is_done
    if not done:
        derive = Path(sys.executable).with_name("derive")
        argv: list[str | Path] = [derive, "image", name, "--project", root, "--store", store]
        if subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode:
            raise CannotMeasureError(f"the image {name}, to measure with, cannot be derived")
    scratch = Path(tempfile.mkdtemp(prefix="derive-bench-", dir=store.parent))
    try:
        yield Bench(root=root, store=store, name=name, target=target, scratch=scratch, jobs=jobs, rounds=rounds)
    finally:
        remove_folder(scratch)


def cold_store(setting: Bench) -> Path:
    """Make a store that holds what the image's closure fetches, as if fetched just now, and nothing else."""
    path = setting.new_path("cold")
    fetches = [derivation for derivation in closure(setting.target) if derivation.fixed is not None]
    with LocalStore(setting.store) as warm, LocalStore(path) as cold:
        for derivation in fetches:
            output = derivation.fixed
            assert output is not None
            _link(warm.blob_path(output.digest), path / "blobs" / "sha256" / output.digest.hex)
        remember(cold, [(derivation, {}, derivation.fixed) for derivation in fetches if derivation.fixed is not None])
    return path


def _link(source: Path, target: Path) -> None:
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def linked_copy(source: Path, target: Path) -> Path:
    """Make a store that holds what another one holds and knows; files are linked, and the other one stays as it is."""
    for name in FOLDERS:
        (target / name).mkdir(parents=True)
    for name in ("blobs", "listings", "trees"):
        shutil.copytree(source / name, target / name, symlinks=True, copy_function=os.link, dirs_exist_ok=True)
    for name in ("index.json", "oci-layout"):
        shutil.copy(source / name, target)
    with (
        closing(sqlite3.connect(source / "derive.sqlite")) as old,
        closing(sqlite3.connect(target / "derive.sqlite")) as new,
    ):
        old.backup(new)
    return target


def carry(warm: LocalStore, cold: LocalStore, derivations: Sequence[Derivation]) -> None:
    """Give a store what some derivations gave in another one, and nothing of what they were made of."""
    made: list[tuple[Derivation, dict[str, Output], Output]] = []
    for one in derivations:
        inputs = {role: _output_of(warm, given.derivation, given.output) for role, given in one.inputs.items()}
        output = _output_of(warm, one, "out")
        assert isinstance(output, TreeOutput)
        listing = warm.listing(output.digest)
        for blob in blobs_of(listing):
            _link(warm.blob_path(blob), cold.root / "blobs" / "sha256" / blob.hex)
        cold.add_listing(listing, by_facts=output.identity == "facts")
        made.append((one, inputs, output))
    remember(cold, made)


def _output_of(store: LocalStore, derivation: Derivation, name: str) -> Output:
    outputs = {"out": derivation.fixed} if derivation.fixed else plan_for(derivation, store, None).steps[-1].outputs
    if outputs is None:
        raise CannotMeasureError(f"{derivation.name} is not in the store")
    return outputs[name]


def remember(store: LocalStore, made: Sequence[tuple[Derivation, dict[str, Output], Output]]) -> None:
    """Note that derivations were realised: each with its inputs' outputs and its own one."""
    for derivation, inputs, output in made:
        row = Realisation(
            resolved=resolved_of(derivation, inputs).id,
            outputs={"out": str(output)},
            builder=f"{derivation.builder}/{derivation.version}",
            engine="",
            host="",
            duration_ns=1,
            log="",
            built_s=int(time.time()),
        )
        store.database.add_realisation(row, derivation.id, derivation.name, derivation.encoded())


def tree_of(store: LocalStore, derivation: Derivation) -> tuple[Digest, Listing]:
    """Return the tree that a derivation gave."""
    output = _output_of(store, derivation, "out")
    if not isinstance(output, TreeOutput):
        raise CannotMeasureError(f"{derivation.name} has no tree in the store")
    return output.digest, store.listing(output.digest)
