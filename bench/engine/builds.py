# SPDX-License-Identifier: Apache-2.0
"""Derive an image cold into two stores, compare the digests, and record what it took beside what nothing can beat.

Edge: processes, the network, two scratch stores.

The first store is filled in two steps, fetches and the rest, so that each has its time; the second in one command, as a
person would. Both are removed at the end. See docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from derive.build.engine import engine_digest
from derive.build.execute import Silent
from derive.build.plan import Action, Plan
from derive.build.service import Options, evaluate, plan_for, realise
from derive.canonical import Digest, Json
from derive.cli.console import guarded
from derive.derivations.model import Derivation, closure
from derive.project import Project, find_root, load_project
from derive.records.model import record
from derive.store.history import runs, steps_of_run
from derive.store.local import LocalStore
from derive.trees.materialise import remove_folder
from speed.limit import compile_sources, inflate_and_hash
from speed.machine import facts_of, load
from speed.measure import Sample, settled, watched

KIND = "image-build"
_JOBS = 2


def main(argv: Sequence[str]) -> int:
    """Measure, print the digest, write the record; 1 where the two stores disagree."""
    args = _parser().parse_args(argv)
    return guarded(lambda: _measure(args))


def _measure(args: argparse.Namespace) -> int:
    project = load_project(find_root(Path.cwd()))
    target = evaluate(project, f"image:{args.image}", args.platform)
    with ExitStack() as stack:
        scratch = Path(tempfile.mkdtemp(prefix="derive-builds-", dir=args.scratch))
        stack.callback(remove_folder, scratch)
        before = load()
        first, second = scratch / "first", scratch / "second"
        _say("fetching into the first store")
        fetch_ns, fetched = _fetch(target, first)
        _say("deriving in the first store")
        apart, digest = _derive(project, args, target, first)
        _say("inflating and hashing the wheels, compiling their sources")
        limits = _limits(target, first)
        parts = _by_builder(args.image, target, first)
        remove_folder(first)
        _say("deriving in the second store, with nothing fetched")
        whole, again = _derive(project, args, target, second)
        size = _image_bytes(second, again)
    body: dict[str, Json] = {
        "platform": target.host,
        "derivation": str(target.id),
        "engine": str(engine_digest()),
        "digests": [str(digest), str(again)],
        "machine": dict(facts_of(args.scratch)),
        "load": {"before": before, "after": load()},
        "jobs": _JOBS,
        "image_bytes": size,
        "fetched_bytes": fetched,
        "fetch_ns": fetch_ns,
        "derive_with_fetches": _sample(apart),
        "derive_cold": _sample(whole),
        "limit": limits,
        "steps": parts,
    }
    text = json.dumps(record(KIND, f"{args.image} {target.host}", body), indent=1, sort_keys=True) + "\n"
    if args.record is not None:
        args.record.write_text(text)
    sys.stdout.write(f"{digest}\n")
    if digest != again:
        _say(f"the second store gave another image: {again}")
    return int(digest != again)


def _fetch(target: Derivation, store: Path) -> tuple[int, int]:
    """Fetch everything that the target needs, and return the time and the bytes."""
    with LocalStore(store) as opened:
        plan = plan_for(target, opened, None)
        fetches = plan.of(Action.FETCH)
        some = Plan(target=fetches[-1].derivation, steps=tuple(fetches))
        started = time.monotonic_ns()
        realise(some, opened, Options(jobs=_JOBS), Silent())
        return time.monotonic_ns() - started, plan.fetch_bytes


def _derive(project: Project, args: argparse.Namespace, target: Derivation, store: Path) -> tuple[Sample, Digest]:
    derive = Path(sys.executable).with_name("derive")
    where: list[str | Path] = ["--project", project.root, "--store", store, "--jobs", str(_JOBS)]
    sample = settled(lambda: watched([derive, "image", args.image, "--platform", target.host, *where]))
    with LocalStore(store) as opened:
        (root,) = [one for kind, name, one in opened.database.roots() if (kind, name) == ("image", _name(args, target))]
        return sample, root


def _name(args: argparse.Namespace, target: Derivation) -> str:
    return f"{args.image} {target.host}"


def _limits(target: Derivation, store: Path) -> dict[str, Json]:
    with LocalStore(store) as opened:
        names = {
            d.fixed.digest for d in closure(target) if d.builder == "fetch-wheel" and d.fixed and _is_served(d, target)
        }
        wheels = [Path(opened.blob_path(name)) for name in sorted(names)]
    return {
        "inflate_and_hash": dict(asdict(inflate_and_hash(wheels, _JOBS))),
        "byte_code": dict(asdict(compile_sources(wheels, _JOBS))),
        "wheels": len(wheels),
    }


def _is_served(fetch: Derivation, target: Derivation) -> bool:
    """Say whether a wheel is in the image: a layer may carry it."""
    layers = [one.derivation for role, one in target.inputs.items() if role.startswith("layer.")]
    return any(one.derivation == fetch for layer in layers for one in layer.inputs.values())


def _by_builder(image: str, target: Derivation, store: Path) -> dict[str, Json]:
    """Return how many steps of each builder the last run took, and their time, however many ran side by side."""
    found: dict[str, dict[str, int]] = {}
    with LocalStore(store) as opened:
        (run, *_) = runs(opened.database, image, target.host)
        for step in steps_of_run(opened.database, run.run):
            one = found.setdefault(step.builder, {"steps": 0, "duration_ns": 0})
            one["steps"] += 1
            one["duration_ns"] += step.duration_ns
    return {name: dict(one) for name, one in found.items()}


def _image_bytes(store: Path, manifest: Digest) -> int:
    with LocalStore(store) as opened:
        document: Mapping[str, list[dict[str, int]]] = json.loads(b"".join(opened.read_blob(manifest)))
    return sum(layer["size"] for layer in document["layers"])


def _sample(sample: Sample) -> dict[str, Json]:
    return {"wall_ns": sample.wall_ns, "engine_peak_bytes": sample.peak_bytes}


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("image", metavar="IMAGE")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")
    parser.add_argument(
        "--scratch", type=Path, default=Path(tempfile.gettempdir()), metavar="DIR", help="where the stores are made"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the figures there")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
