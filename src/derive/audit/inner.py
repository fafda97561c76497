# SPDX-License-Identifier: Apache-2.0
"""Runs the engine of the time over the content of the time, and reads the documents that it wrote.

Edge: the sandbox, files. Of the store that another engine wrote, nothing is read here: its form is that engine's own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from derive.canonical import Digest
from derive.derivations.model import Platform
from derive.errors import BuildFailed, Corrupt, Interrupted
from derive.records.chain import FACTS_FILE, RELEASE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from derive.audit.scratch import Scratch
    from derive.derivations.model import Output
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
    return read_written(_run(scratch, engine, argv, out, archive, "derive the release"))


def run_again(
    scratch: Scratch, engine: Path, argv: Sequence[str], archive: Path, derivation: Digest
) -> Mapping[str, Output]:
    """Have an engine build one step of the release that it derived a second time, and return its outputs by name.

    Raises:
        Interrupted, HostRefuses, BuildFailed, Corrupt: as :func:`run_then`.
    """
    from derive.releases.again import AGAIN_FILE, read_again

    folder = _run(scratch, engine, [*argv, "--again", derivation.hex], "again", archive, "build it again")
    try:
        return read_again((folder / AGAIN_FILE).read_bytes(), derivation)
    except (OSError, ValueError) as error:
        raise Corrupt(f"what the engine of then wrote is not read here: {error}", where=str(folder)) from error


def _run(scratch: Scratch, engine: Path, argv: Sequence[str], out: str, archive: Path, what: str) -> Path:
    """Run an engine, and return the folder that it wrote into; ``what`` it was asked stands in the error."""
    from derive.engine.outer import run

    folder = scratch.fresh(out)
    with _told(scratch.log) as (stdout, stderr):
        code = run(engine, argv, scratch.project, scratch.store, folder, archive, stdout=stdout, stderr=stderr)
    if code == _INTERRUPTED:
        raise Interrupted("the engine of then was interrupted")
    if code:
        raise BuildFailed(
            f"the engine of then could not {what}: it ended with {code}",
            log=str(scratch.log),
            hint=f"run the same command again when that is mended: it goes on in {scratch.root}",
        )
    return folder


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
