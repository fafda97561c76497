# SPDX-License-Identifier: Apache-2.0
"""BuildKit beside the engine: an image of the same content, by each of them, cold and with nothing changed.

Edge: processes, stores, a private Docker engine.

BuildKit is given a folder with every file of the image, byte code among them, and exports an OCI archive whose digest
repeats. The engine is given wheels as they were fetched, the root that its sandbox runs in, and once the byte code as
well, once not: then it compiles it.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from derive.build.service import evaluate
from derive.derivations.model import closure
from derive.derivations.scope import load_scope
from derive.project import load_project
from derive.store.local import LocalStore
from derive.trees.listing import File
from derive.trees.materialise import materialise, remove_folder
from speed.measure import CannotMeasureError, Sample, Samples, command, interleaved, settled, watched
from speed.private_docker import ImageStore, default_binaries, started_engine, why_unavailable
from speed.ratios import lower_bound
from speed.scratch import Bench, carry, cold_store, linked_copy, tree_of
from speed.some_wheels import NAME, some_wheels
from speed.table import AtLeast, AtMost, Factor, Row, Size, median_time
from speed.why import write

GROUP = "an image beside BuildKit"
IMAGE, DECLARATION = "ds41f", "ds41f-wheels"
WHEELS = ("numpy", "nvidia-cufft", "nvidia-curand", "nvidia-cusolver", "nvidia-nccl-cu13", "sympy", "transformers")
"""A gigabyte as in ds41f: nine tenths native libraries, 10,000 files, and no wheel that outweighs the rest."""

_TARGET = AtLeast(Factor(10))
_MEMORY = AtMost(Size(1_000_000_000))
_OURS = {"given": "derive image, the byte code given", "made": "derive image, byte code compiled"}
_THEIRS = {"gzip": "BuildKit, gzip", "zstd": "BuildKit, zstd"}


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Measure with some wheels of ds41f; where they or a Docker engine are not at hand, say so and measure nothing."""
    lacking = _lacking(setting)
    if lacking is not None:
        note(f"buildkit: not measured: {lacking}")
        return []
    return measure(setting, WHEELS, note)


def _lacking(setting: Bench) -> str | None:
    binaries = default_binaries()
    reason = why_unavailable(binaries)
    if reason is None and not (binaries / "bin" / "docker-buildx").exists():
        reason = f"no docker-buildx in {binaries}"
    scope = load_scope(setting.project)
    if reason is None and (IMAGE not in scope.images or DECLARATION not in scope.declared):
        reason = f"this project has no image {IMAGE}"
    if reason is None:
        project = some_wheels(scope, IMAGE, DECLARATION, WHEELS)
        fetches = [one for one in closure(evaluate(project, f"image:{NAME}", None)) if one.fixed is not None]
        with LocalStore(setting.store) as store:
            absent = sum(one.fixed is not None and not store.has_blob(one.fixed.digest) for one in fetches)
        if absent:
            reason = f"{absent} of the {len(fetches)} files are not in the store: derive {IMAGE} into it first"
    return reason


def measure(setting: Bench, wheels: tuple[str, ...], note: Callable[[str], None]) -> list[Row]:
    """Take turns, each with a cold build and then the same one with nothing changed, and compare round by round."""
    made, context = _prepare(setting, wheels, note)
    unchanged: dict[str, list[Sample]] = {}
    digests: set[str] = set()

    def ours(base: Path, key: str) -> Sample:
        store = linked_copy(base, setting.new_path("store"))
        argv = _derive(made, store)
        cold = settled(lambda: watched(argv))
        unchanged.setdefault(key, []).append(command(argv))
        remove_folder(store)
        return cold

    with buildkit(setting.new_path("client")) as kit:

        def theirs(compression: str) -> Sample:
            archive = setting.new_path(f"{compression}.tar")
            kit.prune()
            cold = settled(lambda: kit.build(context, archive, compression))
            digests.add(f"{compression} {exported(archive)}")
            archive.unlink()
            unchanged.setdefault(compression, []).append(settled(lambda: kit.build(context, archive, compression)))
            digests.add(f"{compression} {exported(archive)}")
            archive.unlink()
            return cold

        cases: dict[str, Callable[[], Sample]] = {
            "given": lambda: ours(made.given, "given"),
            "gzip": lambda: theirs("gzip"),
            "made": lambda: ours(made.fetched, "made"),
            "zstd": lambda: theirs("zstd"),
        }
        cold = interleaved(cases, setting.rounds)
    if len(digests) != len(_THEIRS):
        note("buildkit: its digests did not repeat")
    return rows(cold, {key: Samples(tuple(samples)) for key, samples in unchanged.items()})


def rows(cold: Mapping[str, Samples], unchanged: Mapping[str, Samples]) -> list[Row]:
    """Return what ours take, and how many times as long BuildKit does."""
    found = [_own(f"{what}, cold", cold[key]) for key, what in _OURS.items()]
    found.append(_own("derive image, nothing changed", unchanged["given"]))
    peak = max(cold[key].peak_bytes for key in _OURS)
    found.append(Row(group=GROUP, what="derive image: the engine's peak memory", amount=Size(peak), target=_MEMORY))
    for other, name in _THEIRS.items():
        for key, what in _OURS.items():
            found += _ratio(f"{name}, cold", cold[other], what, cold[key])
        found += _ratio(f"{name}, nothing changed", unchanged[other], "derive image", unchanged["given"])
    return found


def _own(what: str, samples: Samples) -> Row:
    return Row(group=GROUP, what=what, amount=median_time(samples.wall_ns), samples=samples.wall_ns)


def _ratio(what: str, theirs: Samples, beside: str, ours: Samples) -> Iterator[Row]:
    other = median_time(ours.wall_ns)
    yield replace(_own(what, theirs), beside=beside, other=other)
    bound = lower_bound(theirs.wall_ns, ours.wall_ns)
    if bound is not None:
        yield Row(group=GROUP, what="    that ratio: lower 95% bound", amount=Factor(bound), target=_TARGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A project, and stores to derive it in: with what is fetched and the sandbox's root, and with byte code too."""

    project: Path
    fetched: Path
    given: Path
    jobs: int


def _derive(made: _Made, store: Path) -> list[str | Path]:
    derive = Path(sys.executable).with_name("derive")
    where: list[str | Path] = ["--project", made.project, "--store", store]
    return [derive, "image", NAME, "--offline", "--jobs", str(made.jobs), *where]


def _prepare(setting: Bench, wheels: tuple[str, ...], note: Callable[[str], None]) -> tuple[_Made, Path]:
    """Make the project and its stores, and lay its image out as a folder beside a Dockerfile."""
    folder = setting.new_path("project")
    write(some_wheels(load_scope(setting.project), IMAGE, DECLARATION, wheels), folder)
    project = load_project(folder)
    target = evaluate(project, f"image:{NAME}", None)
    here = replace(setting, name=NAME, target=target)
    warm = cold_store(here)
    made = _Made(project=folder, fetched=cold_store(here), given=cold_store(here), jobs=setting.jobs)
    command(_derive(made, warm))
    context = setting.new_path("context")
    context.mkdir()
    (context / "Dockerfile").write_text("FROM scratch\nCOPY root /\n")
    with LocalStore(warm) as store:
        compiled = [one for one in closure(target) if one.builder == "bytecode"]
        roots = {one.inputs["root"].derivation for one in compiled}
        for path, given in ((made.fetched, [*roots]), (made.given, [*roots, *compiled])):
            with LocalStore(path) as cold:
                carry(store, cold, given)
        _, listing = tree_of(store, target.inputs["root"].derivation)
        materialise(store, listing, context / "root")
    remove_folder(warm)
    files = [entry for entry in listing.values() if isinstance(entry, File)]
    note(f"buildkit: {', '.join(wheels)} for {target.host}: {len(files):,} files, {listing.size / 1e6:.0f} MB")
    return made, context


@dataclass(frozen=True, slots=True)
class BuildKit:
    """BuildKit of a running Docker engine, and its client's folder."""

    client: Path
    buildx: Path
    url: str

    def build(self, context: Path, archive: Path, compression: str) -> Sample:
        """Build a folder's Dockerfile into an OCI archive whose bytes do not depend on when and where."""
        output = f"type=oci,dest={archive},rewrite-timestamp=true,compression={compression}"
        options = ["--provenance=false", "--build-arg", "SOURCE_DATE_EPOCH=0", "--output", output]
        return self._run("build", *options, context)

    def prune(self) -> None:
        """Forget everything."""
        self._run("prune", "--all", "--force")

    def answers(self, _: str) -> bool:
        """Say whether the engine answers."""
        try:
            self._run("inspect")
        except CannotMeasureError:
            return False
        return True

    def _run(self, *arguments: str | Path) -> Sample:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.client), "DOCKER_HOST": self.url}
        return command([self.buildx, *arguments], env=env)


@contextmanager
def buildkit(client: Path) -> Iterator[BuildKit]:
    """Start a Docker engine whose BuildKit can export OCI archives, for a client with a new folder."""
    binaries = default_binaries()
    client.mkdir()
    with started_engine(store=ImageStore.CONTAINERD, binaries=binaries) as engine:
        kit = BuildKit(client, binaries.absolute() / "bin" / "docker-buildx", engine.url)
        engine.wait(kit.answers)
        yield kit


def exported(archive: Path) -> str:
    """Return the digest of the manifest in an OCI archive."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        document: Mapping[str, list[Mapping[str, str]]] = json.load(index)
    return document["manifests"][0]["digest"]
