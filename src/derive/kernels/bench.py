# SPDX-License-Identifier: Apache-2.0
"""Pack the kernels for a machine with a GPU, run the bundle there, keep what it reports.

Edge: the store, a Python with torch as a child process, the project's records/ folder.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from derive.build.execute import Progress
from derive.build.service import Options, plan_for, realise
from derive.canonical import Json, digest_document
from derive.derivations.evaluate import Evaluator
from derive.derivations.kernels import cache, cached, compiler
from derive.derivations.model import DEBIAN_ARCHITECTURE, Derivation, Platform, TreeOutput
from derive.derivations.scope import Scope, load_scope
from derive.derivations.steps import unpack_wheel
from derive.errors import HostRefuses, InputErrors
from derive.kernels.bundle import (
    WHEELS,
    Member,
    Site,
    lay_out,
    manifest_member,
    program_members,
    site_of,
    tree_members,
    unpacked_wheel_members,
    write_bundle,
)
from derive.kernels.index import INDEX
from derive.kernels.plot import plot
from derive.kernels.report import Report, parse_report, record_of, summary
from derive.lock.documents import PythonLock, target_name
from derive.outfile import open_output
from derive.project import Project
from derive.store.local import LocalStore
from derive.trees.listing import File, Listing

PACKAGE = "ds41-kernels-unpacked"
"""The derivation whose tree holds the package ds41_kernels at its top."""

RECORDS = "records/kernels"
DEVICES = Path("/dev")
_HOST: Platform = "linux/amd64"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
ELSEWHERE = (
    "on a machine with a GPU: derive kernels bench --pack FILE here, unpack FILE there, "
    "python3 kernels/run.py --all --out out; then here: derive kernels bench --record out/report.json"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a bundle is to hold: some kernels or all, for one GPU; TileLang's wheels of a folder, or the lock's."""

    gpu: str
    kernels: tuple[str, ...] = ()
    wheels: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What goes into the archive, and what it says of itself."""

    members: tuple[Member, ...]
    manifest: Mapping[str, Json]


def gather(project: Project, store: LocalStore, wanted: Wanted, options: Options, progress: Progress | None) -> Bundle:
    """Derive everything that a bundle holds.

    Raises:
        DeriveError: from the steps, and for what is not declared.
    """
    scope = load_scope(project)
    evaluator = Evaluator(scope)
    build = project.settings.build_platform
    decl = compiler(scope)
    narrow = decl.model_copy(update={"gpus": {_HOST: (wanted.gpu,)}, "kernels": wanted.kernels or decl.kernels})
    root = evaluator.derivation(decl.root, build)
    kernel_cache = cache(scope, f"{wanted.gpu} cache", "derivations/", narrow, root, _HOST)
    package = evaluator.derivation(PACKAGE, _HOST)

    def made(derivation: Derivation) -> TreeOutput:
        out = realise(plan_for(derivation, store, project.root), store, options, progress)["out"]
        assert isinstance(out, TreeOutput)
        return out

    cache_tree = store.listing(made(kernel_cache).digest)
    package_tree = store.listing(made(package).digest)
    site = _site(scope, store, wanted, decl.python, made)
    index = json.loads(b"".join(store.read(_file(cache_tree, INDEX.encode()))))
    steps = {unit.name: step for unit, step in evaluator.kernel_units(cached(scope, narrow), (wanted.gpu,))}
    manifest: dict[str, Json] = {
        "gpu": wanted.gpu,
        "host": _HOST,
        "cache": {"derivation": str(kernel_cache.id), "tree": str(made(kernel_cache).digest)},
        "package": {"derivation": str(package.id), "tree": str(made(package).digest)},
        "wheels": [{"file": name, "sha256": digest.hex} for name, digest in sorted(site.wheels.items())],
        "tilelang": index["tilelang"],
        "units": [_unit_document(one, steps[one["unit"]]) for one in index["units"]],
    }
    members = (
        manifest_member(manifest),
        *program_members(),
        *tree_members(store, cache_tree, "cache"),
        *tree_members(store, package_tree, "package"),
        *site.members,
    )
    return Bundle(members=members, manifest=manifest)


def pack(bundle: Bundle, file: str, *, jobs: int) -> int:
    """Write a bundle to a file, or to standard output for ``-``; return its size in bytes."""
    with open_output(file) as out:
        return write_bundle(bundle.members, out, jobs=jobs)


def _unit_document(one: Mapping[str, Json], step: Derivation) -> dict[str, Json]:
    kept = ("unit", "kernel", "program", "shape", "tile", "gpu", "rows", "keys", "cubin-sha256", "resources")
    return {**{key: one[key] for key in kept}, "derivation": str(step.id)}


def _file(tree: Listing, path: bytes) -> File:
    entry = tree[path]
    assert isinstance(entry, File)
    return entry


def _site(
    scope: Scope, store: LocalStore, wanted: Wanted, python: str, made: Callable[[Derivation], TreeOutput]
) -> Site:
    """Return TileLang and what it needs, for the import path of the machine with the GPU."""
    if wanted.wheels is not None:
        return site_of(wanted.wheels)
    architecture = DEBIAN_ARCHITECTURE[_HOST]
    for lock in scope.locks.values():
        if isinstance(lock, PythonLock) and target_name(python, architecture) in lock.targets:
            found = {entry.name: entry for entry in lock.target(python, architecture)}
            if all(name in found for name in WHEELS):
                entries = [found[name] for name in WHEELS]
                trees = [store.listing(made(unpack_wheel(entry)).digest) for entry in entries]
                members = tuple(member for tree in trees for member in unpacked_wheel_members(store, tree))
                return Site(members=members, wheels={entry.file: entry.sha256 for entry in entries})
    detail = (f"Python    {python} on {architecture}", f"wheels    {', '.join(WHEELS)}")
    hint = "name a folder with --wheels"
    raise InputErrors.one("no lock set has all that TileLang needs", where="lock/", detail=detail, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A report that was kept: where, with its plot, and what it says in short."""

    record: Path
    picture: Path
    report: Report
    lines: tuple[str, ...]


def keep_report(project: Project, data: bytes, *, where: str, name: str | None) -> Recorded:
    """Check a report, and write it as a record with its plot beside it.

    Raises:
        InputErrors: everything that is wrong with it; a name that is taken by another record.
    """
    report = parse_report(data, where)
    if report.card is None:
        raise InputErrors.one("the run saw no GPU, so there is nothing to keep", where=where, hint=ELSEWHERE)
    if name is not None and not _NAME.fullmatch(name):
        hint = "use lower-case letters, digits, . _ and -"
        raise InputErrors.one(f"not a name for a record: {name!r}", where="--name", hint=hint)
    document = record_of(report)
    text = json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True).encode() + b"\n"
    folder = project.root / RECORDS
    stem = name or f"{report.card_slug}-{digest_document(document).short}"
    record, picture = folder / f"{stem}.json", folder / f"{stem}.svg"
    if record.exists() and record.read_bytes() != text:
        hint = "records are only added to: name another with --name"
        raise InputErrors.one(f"there is another record of the name {stem}", where=str(record), hint=hint)
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in ((picture, plot(report).encode()), (record, text)):
        with open_output(path) as out:
            out.write(content)
    return Recorded(record=record, picture=picture, report=report, lines=summary(report))


def run_here(bundle: Bundle, python: str, *, arguments: Sequence[str] = ()) -> bytes:
    """Run a bundle with a Python that has torch, on the GPU of this machine; return the report.

    Raises:
        HostRefuses: when there is no GPU, or no such Python, or no report came.
    """
    why = gpu_refusal(python)
    if why is not None:
        raise HostRefuses(f"no kernel can be timed here: {why}", hint=ELSEWHERE)
    with tempfile.TemporaryDirectory(prefix="derive-bench-") as temporary:
        folder = Path(temporary)
        start = lay_out(bundle.members, folder)
        words = [python, str(start), "--all", "--out", str(folder / "out"), *arguments]
        status = subprocess.run(words, stdout=sys.stderr, check=False).returncode
        report = folder / "out" / "report.json"
        if not report.exists():
            raise HostRefuses(f"the run ended with status {status}, and without a report")
        return report.read_bytes()


def gpu_refusal(python: str) -> str | None:
    """Say why kernels cannot run here with a Python, or None when they can."""
    if not any(DEVICES.glob("nvidia[0-9]*")):
        return "this machine has no NVIDIA GPU"
    probe = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 9)"
    try:
        done = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{python} cannot be run: {(error.strerror or '').lower()}"
    if done.returncode == 9:
        return f"torch of {python} sees no GPU"
    return f"{python} has no torch" if done.returncode else None
