# SPDX-License-Identifier: Apache-2.0
"""Runs the engine of the time over the content of the time, and reads what it wrote and what it built from what.

Edge: the sandbox, files, the database of a store that another engine wrote.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from derive.canonical import Digest
from derive.derivations.model import Platform
from derive.errors import BuildFailed, Corrupt, Interrupted
from derive.records.chain import FACTS_FILE, RELEASE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from derive.audit.compare import Inputs
    from derive.audit.scratch import Scratch
    from derive.releases.document import Release
    from derive.releases.facts import Facts

_OUT = "/work/out"
_INTERRUPTED = 130
_LARGEST = 1 << 28


def arguments(name: str, recipe: str, platforms: Sequence[Platform], jobs: int | None) -> list[str]:
    """Return what an engine of any time is asked: an interface that every release's engine has to understand."""
    chosen = [word for platform in platforms for word in ("--platform", platform)]
    how_many = [] if jobs is None else ["--jobs", str(jobs)]
    return ["release", name, "--recipe", recipe, *chosen, "--offline", "--write-to", _OUT, *how_many]


def run_then(scratch: Scratch, engine: Path, argv: Sequence[str], out: str, archive: Path) -> tuple[Release, Facts]:
    """Run an engine without network over the scratch project and store, and return the release that it describes.

    Raises:
        Interrupted: when the person stopped it; what is built is kept.
        HostRefuses: when this machine makes no sandboxes.
        BuildFailed: when it ends otherwise than well; its log has what it said.
        Corrupt: when what it wrote is not what this engine reads.
    """
    from derive.engine.outer import run

    folder = scratch.fresh(out)
    with _told(scratch.log) as (stdout, stderr):
        code = run(engine, argv, scratch.project, scratch.store, folder, archive, stdout=stdout, stderr=stderr)
    if code == _INTERRUPTED:
        raise Interrupted("the engine of then was interrupted")
    if code:
        raise BuildFailed(
            f"the engine of then could not derive the release: it ended with {code}",
            log=str(scratch.log),
            hint=f"run the same command again when that is mended: it goes on in {scratch.root}",
        )
    return read_written(folder)


def read_written(folder: Path) -> tuple[Release, Facts]:
    """Read the two documents that an engine wrote; raises Corrupt for what this one does not read."""
    from derive.releases.document import read_release
    from derive.releases.facts import read_facts

    try:
        data = [(folder / name).read_bytes() for name in (RELEASE_FILE, FACTS_FILE)]
        return read_release(data[0]), read_facts(data[1])
    except (OSError, ValueError) as error:
        raise Corrupt(
            f"the engine of then wrote no documents that are read here: {error}", where=str(folder)
        ) from error


@contextmanager
def _told(log: Path) -> Iterator[tuple[int, int]]:
    """Give two descriptors for what an engine says: both go into the log, and standard error to the person too."""
    reading, writing = os.pipe()
    with log.open("ab") as file:
        thread = threading.Thread(target=_tee, args=(reading, file), name="engine of then", daemon=True)
        thread.start()
        try:
            yield file.fileno(), writing
        finally:
            os.close(writing)
            thread.join()


def _tee(reading: int, file: IO[bytes]) -> None:
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while piece := pipe.read(1 << 16):
            file.write(piece)
            file.flush()
            with suppress(OSError, ValueError, AttributeError):
                sys.stderr.write(piece.decode("utf-8", "backslashreplace"))
                sys.stderr.flush()


def inputs_then(store: Path) -> Inputs:
    """Return what each derivation in a store is built from; empty where its database is not one that is read here."""
    found: dict[Digest, tuple[Digest, ...]] = {}
    try:
        with _database(store) as connection:
            for key, document in connection.execute("SELECT id, document FROM derivations"):
                found[Digest(str(key))] = tuple(_inputs(json.loads(document)))
    except (sqlite3.Error, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return found


def _inputs(document: Mapping[str, Mapping[str, Mapping[str, str]]]) -> Iterator[Digest]:
    for reference in document["inputs"].values():
        if "derivation" in reference:
            yield Digest(reference["derivation"])


def forget(store: Path, derivation: Digest) -> bool:
    """Take from a store the memory of what a derivation gave, so that it is built again; no bytes are lost.

    What is built upon it is planned anew, and not built where the second build gives the same.

    Returns:
        Whether that was done: False where the store's database is not one that is read here.
    """
    above = _above(inputs_then(store), derivation)
    try:
        with _database(store) as connection, connection:
            rows = connection.execute("SELECT resolved FROM derivations WHERE id = ?", (derivation.hex,)).fetchall()
            if not rows:
                return False
            connection.execute("DELETE FROM realisations WHERE resolved = ?", rows[0])
            connection.executemany("DELETE FROM derivations WHERE id = ?", [(one.hex,) for one in sorted(above)])
            connection.execute("DELETE FROM memos")
    except sqlite3.Error:
        return False
    return True


def _above(inputs: Inputs, derivation: Digest) -> set[Digest]:
    """Return a derivation and everything that is built upon it."""
    found = {derivation}
    grown = True
    while grown:
        more = {key for key, lower in inputs.items() if key not in found and not found.isdisjoint(lower)}
        found |= more
        grown = bool(more)
    return found


@contextmanager
def _database(store: Path) -> Iterator[sqlite3.Connection]:
    path = store / "derive.sqlite"
    if not path.is_file():
        raise sqlite3.OperationalError("no database")
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        yield connection
