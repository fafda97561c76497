# SPDX-License-Identifier: Apache-2.0
"""What commands share: where the project and the store are, how answers and errors are printed.

Edge: environment, standard streams, signals. Standard output carries the answer alone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from derive.errors import BuildFailed, DeriveError, Interrupted, Problem

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.project import Project


def project_of(args: argparse.Namespace) -> Project:
    """Load the project that the arguments, or the working folder, name."""
    from derive.project import find_root, load_project

    named = getattr(args, "project", None)
    return load_project(Path(named) if named is not None else find_root(Path.cwd()))


def store_folder(args: argparse.Namespace) -> Path:
    """Return the store's folder: ``--store``, else ``$DERIVE_STORE``, else the user's data folder."""
    named = getattr(args, "store", None) or os.environ.get("DERIVE_STORE")
    if named:
        return Path(named).absolute()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "derive" / "store"


def jobs_of(args: argparse.Namespace) -> int:
    """Return how many things to do at once."""
    return int(getattr(args, "jobs", 0)) or len(os.sched_getaffinity(0))


def wants_json(args: argparse.Namespace) -> bool:
    """Say whether the answer is to be a JSON record."""
    return bool(getattr(args, "json", False))


def answer(text: str) -> None:
    """Print the answer on standard output."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def answer_record(kind: str, subject: str, body: Mapping[str, Json]) -> None:
    """Print the answer as one record."""
    from derive.records.model import record

    answer(json.dumps(record(kind, subject, body), indent=1, ensure_ascii=False))


def note(text: str) -> None:
    """Say something that is not the answer, on standard error."""
    sys.stderr.write(text + "\n")


def table(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """Lay out rows in columns; ``right`` names the columns aligned to the right."""
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def size_text(count: int) -> str:
    """Write a number of bytes for people: three digits and a binary unit."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1000 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError(count)


def guarded(run: Callable[[], int]) -> int:
    """Run a command, turning errors, Ctrl-C and a closed pipe into exit codes."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = run()
        sys.stdout.flush()
    except DeriveError as error:
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        print_error(Interrupted("interrupted", hint="run the same command again: everything finished is kept"))
        return Interrupted.exit_code
    except BrokenPipeError:
        # Whoever read the answer has left; nothing more can be said on that stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def print_error(error: DeriveError) -> None:
    """Print every problem of an error: place, what happened, details aligned, one next step."""
    problems = error.problems()
    for problem in problems:
        note(_format(problem))
    if isinstance(error, BuildFailed) and error.log is not None:
        note(f"  log:  {error.log}")
    if len(problems) > 1:
        note(f"error: {error.message}")


def _format(problem: Problem) -> str:
    place = f"{problem.where}: " if problem.where else ""
    lines = [f"error: {place}{problem.message}"]
    lines += [f"       {line}" for line in problem.detail]
    if problem.hint is not None:
        lines.append(f"  hint: {problem.hint}")
    return "\n".join(lines)


def _interrupt(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
