# SPDX-License-Identifier: Apache-2.0
"""The executors that a user's ``config.toml`` names: ``[executors.NAME]``, read into values.

Core: no IO.

They are the user's, of this machine, and never the project's: which machine runs a step is in no id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from derive.derivations.model import PLATFORMS, Platform
from derive.errors import InputErrors, Problem, expected_got
from derive.recipes.forms import size_bytes
from derive.schedule.model import HERE, NETWORK, USUAL_SPEED
from derive.toml import key_path, read_settings
from derive.words import binary_size, near, one_line

GIB = 1 << 30
LOCK = "/tmp/derive-build.lock"  # noqa: S108 - every user's builds must find it, and it holds nothing
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SSH = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)@([A-Za-z0-9_][A-Za-z0-9_.:-]*)")
_KEYS = ("builder", "platforms", "jobs", "cores", "memory", "rate", "speed", "guard")
_GUARD_KEYS = ("ssh", "idle", "memory-needed", "memory-floor", "memory-a-job", "cores-kept", "lock")
_RESERVED = (HERE, NETWORK)
_MOST_JOBS = 512
_LONGEST_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """When a host that serves models may build: its containers of these names do not run, and memory is left.

    ``host`` and ``user`` are those of SSH, both None where it is this machine.
    ``idle`` are names of containers, with ``*`` and ``?``. A build begins with ``memory_needed`` bytes available at
    least, and is stopped below ``memory_floor``; each job is counted at ``memory_a_job`` and two processors, and
    ``cores_kept`` processors are left alone. Only one build at a time holds ``lock``, a file there.
    """

    host: str | None = None
    user: str | None = None
    idle: tuple[str, ...] = ()
    memory_needed: int = 64 * GIB
    memory_floor: int = 24 * GIB
    memory_a_job: int = 8 * GIB
    cores_kept: int = 4
    lock: str = LOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorEntry:
    """One table. ``builder`` is a builder of buildx, None for this machine; ``jobs`` how many steps run there at once.

    ``cores`` is how many things all its steps together may do at once, None where as many as here; ``rate`` bytes a
    second to it, None where nothing says; ``speed`` thousandths of this machine's, None where nothing says.
    """

    name: str
    builder: str | None
    platforms: tuple[Platform, ...]
    jobs: int | None = None
    cores: int | None = None
    memory_bytes: int | None = None
    rate: int | None = None
    speed: int | None = None
    guard: Guard | None = None

    @property
    def is_here(self) -> bool:
        """Whether it is this machine itself."""
        return self.builder is None


def parse_executors(data: bytes, file: str) -> tuple[ExecutorEntry, ...]:
    """Read ``[executors.*]`` of a user's ``config.toml``, in the order of the file; other tables are not looked at.

    Raises:
        InputErrors: for every key and value that is wrong.
    """
    tables = read_settings(data, file).get("executors", {})
    if not isinstance(tables, dict):
        raise InputErrors.one("not a table of tables", where=f"{file}: executors", hint="write [executors.NAME]")
    problems: list[Problem] = []
    found = [_entry(name, table, file, problems) for name, table in tables.items()]
    here = [one.name for one in found if one is not None and one.is_here]
    if len(here) > 1:
        message, detail = (
            "two executors without a builder: both are this machine",
            (f"executors {', '.join(map(one_line, here))}",),
        )
        problems.append(Problem(where=f"{file}: {_path_of(here[1])}", message=message, detail=detail))
    problems += _unguarded([one for one in found if one is not None], file)
    if problems:
        raise InputErrors(problems)
    return tuple(one for one in found if one is not None)


def _unguarded(entries: Sequence[ExecutorEntry], file: str) -> list[Problem]:
    """Return what is wrong with executors that name another's builder without its guard: they would go round it."""
    guards = {one.builder: one.name for one in entries if one.guard is not None and one.builder is not None}
    return [
        Problem(
            where=f"{file}: {_path_of(one.name, 'builder')}",
            message=f"the builder {one.builder} has a guard in {_path_of(guards[one.builder], 'guard')}, and none here",
            hint=f"write the same under [{_path_of(one.name, 'guard')}], or leave one of the two out",
        )
        for one in entries
        if one.guard is None and one.builder in guards
    ]


@dataclass(slots=True)
class _Table:
    """A table that is read: what is wrong with it is gathered."""

    values: Mapping[str, Any]
    where: str
    problems: list[Problem]
    keys: Sequence[str] = field(default=())

    def wrong(self, key: str, message: str, *, expected: str = "", got: str = "", hint: str | None = None) -> None:
        detail = expected_got(expected, got or _shown(self.values.get(key))) if expected else ()
        self.problems.append(Problem(where=key_path((key,), self.where), message=message, detail=detail, hint=hint))

    def take(self, key: str, read: Callable[[Any], Any], expected: str, default: Any = None) -> Any:
        """Return a value as ``read`` makes it, which raises ValueError or TypeError; else the default."""
        if key not in self.values:
            return default
        try:
            return read(self.values[key])
        except (ValueError, TypeError):
            self.wrong(key, "not what stands here", expected=expected)
            return default

    def known(self) -> None:
        for key in self.values:
            if key not in self.keys:
                self.wrong(key, "unknown key", hint=near(key, self.keys) or f"one of {', '.join(self.keys)}")


def _entry(name: str, values: object, file: str, problems: list[Problem]) -> ExecutorEntry | None:
    where = f"{file}: {_path_of(name)}"
    if not isinstance(values, dict):
        problems.append(Problem(where=where, message="not a table", hint=f"write [{_path_of(name)}]"))
        return None
    table = _Table(values, where, problems, _KEYS)
    if not _NAME.fullmatch(name) or name in _RESERVED:
        message = "the name is taken" if name in _RESERVED else "no name for an executor"
        hint = "begin with a letter or digit, then letters, digits, dots, dashes, underscores"
        taken = f"{HERE} is this machine, {NETWORK} what is fetched: choose another name"
        problems.append(Problem(where=where, message=message, hint=taken if name in _RESERVED else hint))
    table.known()
    builder = table.take("builder", _name, "the name of a builder: docker buildx ls")
    platforms = table.take("platforms", _platforms, f"an array of {', '.join(PLATFORMS[1:])}", ())
    if "builder" in values and "platforms" not in values:
        hint = f'platforms = ["linux/amd64"]; docker buildx inspect {builder or "BUILDER"} lists them'
        table.wrong("platforms", "missing: nothing says what it runs", hint=hint)
    return ExecutorEntry(
        name=name,
        builder=builder,
        platforms=platforms,
        jobs=table.take("jobs", _count, f"a whole number from 1 to {_MOST_JOBS}"),
        cores=table.take("cores", _count, f"a whole number from 1 to {_MOST_JOBS}"),
        memory_bytes=table.take("memory", _size, "a size as text, as in 96GiB, above 0"),
        rate=table.take("rate", _size, "bytes a second as a size, as in 110MiB, above 0"),
        speed=table.take("speed", _speed, "a number above 0: 2 is twice as quick as this machine"),
        guard=_guard(values.get("guard"), name, where, problems) if "guard" in values else None,
    )


def _guard(values: object, name: str, where: str, problems: list[Problem]) -> Guard | None:
    if not isinstance(values, dict):
        problems.append(
            Problem(where=f"{where}.guard", message="not a table", hint=f"write [{_path_of(name, 'guard')}]")
        )
        return None
    table = _Table(values, f"{where}.guard", problems, _GUARD_KEYS)
    table.known()
    user, host = table.take("ssh", _ssh, "USER@HOST, as for ssh", (None, None))
    needed = table.take("memory-needed", _size, "a size as text, as in 64GiB, above 0", Guard().memory_needed)
    floor = table.take("memory-floor", _size, "a size as text, as in 24GiB, above 0", Guard().memory_floor)
    if needed < floor:
        of_floor = "" if "memory-floor" in values else " by default"
        table.wrong(
            "memory-needed",
            "less than memory-floor: what begins would be stopped at once",
            expected=f"{binary_size(floor)} or more, as memory-floor{of_floor}",
            got="" if "memory-needed" in values else f"{binary_size(needed)} by default",
        )
    return Guard(
        host=host,
        user=user,
        idle=table.take("idle", _names, "an array of names of containers, with * and ?", ()),
        memory_needed=needed,
        memory_floor=floor,
        memory_a_job=table.take("memory-a-job", _size, "a size as text, as in 8GiB, above 0", Guard().memory_a_job),
        cores_kept=table.take("cores-kept", _count_or_none, f"a whole number up to {_MOST_JOBS}", Guard().cores_kept),
        lock=table.take("lock", _path, "an absolute path there", LOCK),
    )


def is_builder_name(text: str) -> bool:
    """Whether text can be the name of a builder: of one word, and none that a command takes for an option."""
    return bool(text) and text.isprintable() and not text.startswith("-") and " " not in text


def _path_of(*parts: str) -> str:
    return key_path(("executors", *parts))


def _shown(value: object) -> str:
    """Write a value as it may be shown, whatever stands there; of what is long, its beginning."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # it holds a hexadecimal number of thousands of digits, or is too deep
        return "a value that is too long to show"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _name(value: Any) -> str:
    if not isinstance(value, str) or not is_builder_name(value):
        raise ValueError(value)
    return value


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        raise ValueError(value)
    return value


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(value)
    return tuple(map(_name, value))


def _platforms(value: Any) -> tuple[Platform, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(value)
    wanted: tuple[Platform, ...] = tuple(one for one in PLATFORMS[1:] if one in value)
    if len(wanted) != len(value):
        raise ValueError(value)
    return wanted


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_JOBS:
        raise ValueError(value)
    return value


def _count_or_none(value: Any) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else _count(value)


def _size(value: Any) -> int:
    found = size_bytes(value)
    if found < 1:
        raise ValueError(value)
    return found


def _speed(value: Any) -> int:
    """Read a number; floats come as their text, so that texts in quotation marks are taken, too."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | str)
        or not re.fullmatch(r"\d{1,4}(\.\d{1,6})?", str(value))
    ):
        raise ValueError(value)
    whole, _, part = str(value).partition(".")
    found = int(whole) * USUAL_SPEED + int((part + "000")[:3])
    if found < 1:
        raise ValueError(value)
    return found


def _ssh(value: Any) -> tuple[str, str]:
    match = _SSH.fullmatch(value)
    if match is None:
        raise ValueError(value)
    return match[1], match[2]
