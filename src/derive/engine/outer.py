# SPDX-License-Identifier: Apache-2.0
"""Runs a derived engine in the outer sandbox, over a project and a store, with the caller's standard output and error.

Edge: the file system, bubblewrap. What is mounted is decided in outer_spec.py.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from derive.engine.outer_spec import OuterRequest, engine_spec, program_spec, python_of
from derive.errors import InputErrors, Problem
from derive.sandbox.request import RootEntry, RootFile, RootFolder, RootLink

if TYPE_CHECKING:
    from derive.engine.reach import Network
    from derive.sandbox.spec import SandboxSpec

_PROGRAMS = "usr/bin"


def run(
    engine_root: Path,
    argv: Sequence[str],
    project: Path,
    store: Path,
    out: Path | None = None,
    archive: Path | None = None,
    *,
    network: Network | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> int:
    """Run ``derive ARGV`` of the engine whose root is unpacked at ``engine_root``, and return its exit code.

    Inside, the project lies read-only at ``/work/project``, which is the working folder; the store at ``/work/store``,
    ``out`` at ``/work/out``; an archive, a folder with blobs by hash or one file, is what ``DERIVE_ARCHIVES`` names.
    Nothing else of this machine is there, and no network unless one is given. ``stdout`` and ``stderr`` are
    descriptors. When this process ends, however it does, the engine and every build of it end too. Root runs it as
    the owner of the store, whose ``out`` becomes too.

    Raises:
        HostRefuses: when this machine cannot make sandboxes.
        InputErrors: when a folder that is given is not there.
    """
    request = _request(engine_root, project, store, out, archive, network)
    return _run(request, lambda given: engine_spec(given, tuple(argv)), store, stdout, stderr)


def run_program(
    engine_root: Path,
    argv: Sequence[str],
    project: Path,
    store: Path,
    out: Path | None = None,
    *,
    stdout: int | None = None,
) -> int:
    """Run a program of an engine's root in the same sandbox, by its absolute path; as :func:`run`."""
    request = _request(engine_root, project, store, out, None, None)
    return _run(request, lambda given: program_spec(given, tuple(argv)), store, stdout, None)


def engine_python(engine_root: Path) -> str:
    """Return the name of the Python of an unpacked root, as ``python3.13``: that of the engine's time.

    Raises:
        InputErrors: when it has none.
    """
    folder = engine_root / _PROGRAMS
    found = python_of(one.name for one in folder.iterdir()) if folder.is_dir() else None
    if found is None:
        raise InputErrors.one("not the root of an engine: it has no Python", where=str(folder))
    return found


def _run(
    request: OuterRequest,
    spec: Callable[[OuterRequest], SandboxSpec],
    store: Path,
    stdout: int | None,
    stderr: int | None,
) -> int:
    from derive.sandbox.attached import run_attached
    from derive.sandbox.probe import find_sandbox

    bubblewrap, facts = find_sandbox(), store.stat()
    is_other = os.geteuid() == 0 != facts.st_uid
    if is_other and request.out is not None:
        os.chown(request.out, facts.st_uid, facts.st_gid)
    with _devices(wanted=not is_other) as devices:
        return run_attached(
            bubblewrap,
            spec(replace(request, devices=devices)),
            stdout=stdout,
            stderr=stderr,
            owner=(facts.st_uid, facts.st_gid) if is_other else None,
        )


@contextlib.contextmanager
def _devices(*, wanted: bool) -> Iterator[bytes | None]:
    """Make device nodes of this run's own, where this process can: root in the sandbox owns those of the host."""
    from derive.sandbox.scratch import private_devices

    with tempfile.TemporaryDirectory(prefix="derive-dev-") as place:
        made = private_devices(Path(place) / "dev") if wanted else None
        yield None if made is None else os.fsencode(made)


def _request(
    engine_root: Path,
    project: Path,
    store: Path,
    out: Path | None,
    archive: Path | None,
    network: Network | None,
) -> OuterRequest:
    folders = [engine_root, project, store, *([] if out is None else [out])]
    absent = [one for one in folders if not one.is_dir()]
    if archive is not None and not archive.exists():
        absent.append(archive)
    if absent:
        raise InputErrors([Problem(where=str(one), message="not there") for one in absent])
    return OuterRequest(
        root=os.fsencode(engine_root.resolve()),
        root_entries=_top(engine_root),
        python=f"/{_PROGRAMS}/{engine_python(engine_root)}",
        project=os.fsencode(project.resolve()),
        store=os.fsencode(store.resolve()),
        out=None if out is None else os.fsencode(out.resolve()),
        archive=None if archive is None else os.fsencode(archive.resolve()),
        archive_is_file=archive is not None and not archive.is_dir(),
        network=network is not None,
        certificates=None if network is None or network.certificates is None else os.fsencode(network.certificates),
        environment={} if network is None else network.environment,
    )


def _top(root: Path) -> tuple[RootEntry, ...]:
    """Return the top level of an unpacked root."""
    return tuple(_entry(path) for path in root.iterdir())


def _entry(path: Path) -> RootEntry:
    name = os.fsencode(path.name)
    if path.is_symlink():
        return RootLink(name=name, target=os.fsencode(path.readlink()))
    return RootFolder(name=name, empty=False) if path.is_dir() else RootFile(name=name)
