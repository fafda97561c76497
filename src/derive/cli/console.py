# SPDX-License-Identifier: Apache-2.0
"""What commands share: where the project and the store are, how answers and errors are printed.

Edge: environment, standard streams, signals. Standard output carries the answer alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from derive.canonical import escape
from derive.errors import DeriveError, HostRefuses, InputErrors, Interrupted, Problem, SeveralFailed
from derive.words import columns

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.project import Project


_TAIL_BYTES, _TAIL_LINES, _TAIL_WIDTH = 8192, 10, 200


def project_of(args: argparse.Namespace) -> Project:
    """Load the project that the arguments, or the working folder, name."""
    from derive.project import load_project

    return load_project(project_root(args), _content_problems)


def project_root(args: argparse.Namespace) -> Path:
    """Return the project's folder: ``--project``, else the folder here or above that is one."""
    from derive.project import find_root, require_root

    named = getattr(args, "project", None)
    if named is not None:
        return require_root(Path(named))
    try:
        return find_root(Path.cwd())
    except FileNotFoundError:
        raise InputErrors.one("the working folder is gone", hint="go to one that is there") from None


def _content_problems(project: Project) -> Iterable[Problem]:
    """Return what is wrong with a project's content, when its settings are wrong already."""
    from derive.derivations.scope import load_scope

    try:
        load_scope(project)
    except InputErrors as error:
        return error.problems()
    return ()


def store_folder(args: argparse.Namespace) -> Path:
    """Return the store's folder: ``--store``, else ``$DERIVE_STORE``, else the user's data folder."""
    named = getattr(args, "store", None) or os.environ.get("DERIVE_STORE")
    if named:
        return Path(named).absolute()
    data = os.environ.get("XDG_DATA_HOME")
    try:
        return (Path(data) if data else Path.home() / ".local" / "share") / "derive" / "store"
    except RuntimeError:
        hint = "name one with --store, or DERIVE_STORE"
        raise HostRefuses("this user has no home folder for a store", hint=hint) from None


def jobs_of(args: argparse.Namespace) -> int:
    """Return how many things to do at once."""
    return int(getattr(args, "jobs", 0)) or len(os.sched_getaffinity(0))


def wants_json(args: argparse.Namespace) -> bool:
    """Say whether the answer is to be a JSON record."""
    return bool(getattr(args, "json", False))


def answer(text: str) -> None:
    """Print the answer on standard output: UTF-8 whatever the locale, and names that are none as the bytes they are."""
    if sys.stdout is None:
        raise HostRefuses("standard output is closed, and there is an answer")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write((text if text.endswith("\n") else text + "\n").encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_answer()
        raise HostRefuses(f"the answer cannot be written: {(error.strerror or '').lower()}") from error


def path_text(path: Path) -> str:
    """Write a path as it stands in records: with the one escape for bytes outside printable ASCII."""
    return escape(os.fsencode(path))


def answer_record(kind: str, subject: str, body: Mapping[str, Json]) -> None:
    """Print the answer as one record."""
    from derive.records.model import record

    answer(json.dumps(record(kind, subject, body), indent=1, ensure_ascii=False))


def note(text: str) -> None:
    """Say something that is not the answer, on standard error; nobody listening there is no failure."""
    with contextlib.suppress(OSError, AttributeError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def table(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset(), width: int | None = None) -> str:
    """Lay out rows in columns; ``right`` names those aligned to the right, ``width`` is what the last is wrapped to."""
    return "\n".join(columns(rows, right, width))


def terminal_width(stream: TextIO | None) -> int | None:
    """Return the width of the terminal that a stream goes to; None where it goes to none, and nothing is to fit."""
    if stream is None or stream.closed or not stream.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def guarded(run: Callable[[], int]) -> int:
    """Run a command, turning errors, Ctrl-C and a closed pipe into words and exit codes; no traceback reaches a person.

    With the variable DERIVE_TRACEBACK set, a fault of derive itself is raised as it is.
    """
    came: list[int] = []
    try:
        with _interrupts(came):
            code = run()
            if sys.stdout is not None:
                sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - what is no failure is raised again
        if came and not isinstance(error, Interrupted):
            # Whatever it became on its way: Python turns one that comes while a class is made into a RuntimeError.
            if not isinstance(error, KeyboardInterrupt):
                _drop_answer()
            return _failed(_INTERRUPTED)
        return _ended(error)
    return code


_INTERRUPTED = Interrupted("interrupted", hint="run the same command again: everything finished is kept")


@contextlib.contextmanager
def _interrupts(came: list[int]) -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C and TERM, and note each; afterwards they do again what they did before."""

    def interrupt(number: int, _frame: object) -> NoReturn:
        came.append(number)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGINT] == signal.SIG_IGN:  # a shell starts so what runs in the background
        del before[signal.SIGINT]
    try:
        for number in before:
            signal.signal(number, interrupt)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ended(error: BaseException) -> int:
    """Say what ended a command, and return its exit code; raises what is no failure, or is to be seen as it is."""
    match error:
        case DeriveError():
            return _failed(error)
        case KeyboardInterrupt():
            return _failed(_INTERRUPTED)
        case BrokenPipeError():
            # Whoever read the answer has left.
            _drop_answer()
            return 0
        case Exception() if not os.environ.get("DERIVE_TRACEBACK"):
            _drop_answer()
            return _failed(_unforeseen(error))
        case _:
            raise error


def _failed(error: DeriveError) -> int:
    print_error(error)
    return error.exit_code


def _drop_answer() -> None:
    """Say nothing more on standard output, where the interpreter would try again at its end, and complain."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unforeseen(error: Exception) -> DeriveError:
    """Return what no library function put into words: the host's refusals, and faults of derive itself."""
    if isinstance(error, OSError) and error.strerror:
        place = os.fsencode(error.filename).decode("utf-8", "backslashreplace") if error.filename else None
        return HostRefuses(error.strerror.lower(), where=place)
    if isinstance(error, MemoryError):
        return HostRefuses("out of memory", hint="try fewer --jobs")
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame is not None else "nowhere"
    return DeriveError(
        "a fault of derive itself",
        detail=[f"{type(error).__name__}: {error}", f"at {place}"],
        hint="please report it, with what this prints: DERIVE_TRACEBACK=1 and the same command",
    )


def print_error(error: DeriveError) -> None:
    """Print every problem of an error: place, what happened, details aligned, one next step."""
    if isinstance(error, SeveralFailed):
        for one in error.errors:
            print_error(one)
        note(f"error: {error.message}")
        return
    problems = error.problems()
    for problem in problems:
        note(_format(problem))
    if error.log is not None:
        for line in _last_lines(Path(error.log)):
            note(f"       | {line}")
        note(f"  log:  {error.log}")
    if len(problems) > 1:
        note(f"error: {error.message}")


def _last_lines(log: Path) -> list[str]:
    """Return the last lines that a build printed, without control characters and without what derive itself added."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    printed = text.partition("\nfailed: ")[0] if not text.startswith("failed: ") else ""
    shown = [line for line in printed.splitlines() if line.strip()][-_TAIL_LINES:]
    return ["".join(c if c.isprintable() else "?" for c in line.expandtabs())[:_TAIL_WIDTH] for line in shown]


def _format(problem: Problem) -> str:
    place = f"{problem.where}: " if problem.where else ""
    lines = [f"error: {place}{problem.message}"]
    lines += [f"       {line}" for line in problem.detail]
    if problem.hint is not None:
        lines.append(f"  hint: {problem.hint}")
    return "\n".join(lines)
