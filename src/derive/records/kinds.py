# SPDX-License-Identifier: Apache-2.0
"""The kinds of record that a chain holds, and what the body of each must say.

Core: no IO. The bodies are specified on docs/formats/release.md; every key is there, null where there is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeAlias

from derive.canonical import Digest, Json
from derive.errors import Problem
from derive.toml import key_path
from derive.words import LAST_S

NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
"""The name of a release, and of whatever else a record is about: lower-case, and fit to be a file's name."""

Path: TypeAlias = "tuple[str | int, ...]"
Check: TypeAlias = "Callable[[Json, Path], Iterator[Fault]]"
Fault: TypeAlias = "tuple[Path, str]"

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_HEX = re.compile(r"[0-9a-f]{64}")
_WORD = re.compile(r"[a-z0-9][a-z0-9._-]*")
_NUMBER = re.compile(r"[0-9]{4}")
_DIGITS = re.compile(r"[0-9a-f]{8,}")

_MAKES_A_NAME = frozenset({"candidate", "experiment", "observed", "historical"})


def name_problem(name: str, where: str) -> Problem | None:
    """Return what is wrong with a release's name, None where nothing is."""
    if NAME.fullmatch(name):
        return None
    hint = "lower-case letters, digits, '.' and '-', 63 at most, the first a letter or digit"
    return Problem(where=where, message="no name for a release", detail=(f"got       {name!r}",), hint=hint)


def new_name_problem(kind: str, name: str, where: str, stems: Collection[str]) -> Problem | None:
    """Return why a record of a kind may not bring a name, None where it may; ``stems`` name the records there are.

    A name that could be a record's number, a digest's beginning or a record would be taken for that.
    """
    unfit = name_problem(name, where)
    if unfit is not None or kind not in _MAKES_A_NAME:
        return unfit
    taken = (
        "a record's number"
        if _NUMBER.fullmatch(name)
        else "the beginning of a digest"
        if _DIGITS.fullmatch(name)
        else "the name of a record"
        if name in stems
        else None
    )
    if taken is None:
        return None
    hint = "choose another: a word and a number, as in probe-2"
    return Problem(where=where, message=f"would be taken for {taken}", detail=(f"got       {name!r}",), hint=hint)


def body_problems(kind: str, body: Mapping[str, Json], where: str) -> list[Problem]:
    """Return everything that is wrong with the body of a record of a kind; ``where`` is its file."""
    check = KINDS.get(kind)
    if check is None:
        detail = (f"expected  {', '.join(KINDS)}", f"got       {kind}")
        hint = "a newer derive may have written it: read it with that one"
        return [Problem(where=f"{where}: kind", message="no kind of record", detail=detail, hint=hint)]
    return [Problem(where=f"{where}: {key_path(path)}", message=message) for path, message in check(body, ("body",))]


def is_line(text: str) -> bool:
    """Say whether text is fit to be told: something, in one line, that does nothing to a terminal."""
    return bool(text.strip()) and text.isprintable()


def _is(what: str, fits: Callable[[Json], bool]) -> Check:
    def check(value: Json, path: Path) -> Iterator[Fault]:
        if not fits(value):
            yield path, f"not {what}: {_shown(value)}"

    return check


def _shown(value: Json) -> str:
    return repr(value)[:80] if not isinstance(value, Mapping | list | tuple) else "a table or a list"


def _is_digest(value: Json) -> bool:
    try:
        Digest.parse(value if isinstance(value, str) else "")
    except ValueError:
        return False
    return True


def _is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _fits(pattern: re.Pattern[str]) -> Callable[[Json], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


_text = _is("text in one line that can be printed", lambda value: isinstance(value, str) and is_line(value))
_flag = _is("true or false", lambda value: isinstance(value, bool))
_count = _is("a whole number, 0 or more", _is_count)
_time = _is("seconds since 1970, up to the year 9999", lambda value: _is_count(value) and int(str(value)) <= LAST_S)
_digest = _is("a digest, sha256:<64 hex>", _is_digest)
_hex = _is("64 hex digits", _fits(_HEX))
_commit = _is("a commit of git", _fits(_COMMIT))
_name = _is("a name", _fits(NAME))
_word = _is("a word of lower-case letters, digits, '.', '-' and '_'", _fits(_WORD))
_day = _is("a day, YYYY-MM-DD", _fits(_DAY))
_anything = _is("a table", lambda value: isinstance(value, Mapping))


def _or_null(check: Check) -> Check:
    return lambda value, path: iter(()) if value is None else check(value, path)


def _listed(check: Check) -> Check:
    def each(value: Json, path: Path) -> Iterator[Fault]:
        if not isinstance(value, list | tuple):
            yield path, f"not a list: {_shown(value)}"
            return
        for index, item in enumerate(value):
            yield from check(item, (*path, index))

    return each


def _mapped(check: Check) -> Check:
    def each(value: Json, path: Path) -> Iterator[Fault]:
        if not isinstance(value, Mapping):
            yield path, f"not a table: {_shown(value)}"
            return
        for key, item in value.items():
            if not is_line(key):
                yield (*path, key), "not a key in one line that can be printed"
            yield from check(item, (*path, key))

    return each


def _table(**checks: Check) -> Check:
    def each(value: Json, path: Path) -> Iterator[Fault]:
        if not isinstance(value, Mapping):
            yield path, f"not a table: {_shown(value)}"
            return
        for key in sorted(value.keys() ^ checks.keys()):
            yield (*path, key), "unknown key" if key in value else "this key is missing"
        for key, check in checks.items():
            if key in value:
                yield from check(value[key], (*path, key))

    return each


EVIDENCE_KINDS = ("benchmark", "release-test", "kernel", "image-build", "verify", "waiver")
"""What may speak for a release: the first two answer for a shape, the next three for what its image is made of."""


def _evidence(value: Json, path: Path) -> Iterator[Fault]:
    yield from _EVIDENCE(value, path)
    if not isinstance(value, Mapping):
        return
    wanted = ("shape", "reason", "expires_s") if value.get("kind") == "waiver" else ("digest", "file")
    yield from (((*path, key), "not null here") for key in wanted if key in value and value[key] is None)


_EVIDENCE = _table(
    kind=_is(f"one of {', '.join(EVIDENCE_KINDS)}", lambda value: value in EVIDENCE_KINDS),
    digest=_or_null(_digest),
    file=_or_null(_text),
    shape=_or_null(_word),
    reason=_or_null(_text),
    expires_s=_or_null(_time),
)

KINDS: Mapping[str, Check] = {
    "candidate": _table(
        release=_digest,
        documents=_table(**{"release.json": _digest, "facts.json": _digest}),
        images=_mapped(_digest),
        previous_release=_or_null(_name),
        made_by=_text,
        made_s=_time,
        why=_or_null(_text),
        commit=_or_null(_commit),
        modified=_flag,
        texts=_mapped(_hex),
        evidence=_listed(_evidence),
        cost=_table(duration_ns=_or_null(_count), store_bytes=_or_null(_count)),
    ),
    "promoted": _table(
        release=_digest,
        shape=_word,
        image=_digest,
        shape_bundle=_digest,
        by=_text,
        why=_or_null(_text),
        promoted_s=_time,
        checked=_listed(_text),
        unchecked=_listed(_text),
        evidence=_listed(_evidence),
        certificates=_listed(_digest),
        facts_age_s=_or_null(_count),
    ),
    "retired": _table(release=_name, shape=_or_null(_word), by=_text, why=_text, retired_s=_time),
    "experiment": _table(
        hypothesis=_text,
        variable=_text,
        acceptance=_text,
        rollback=_text,
        base=_name,
        candidate=_or_null(_name),
        result=_or_null(_text),
    ),
    "observed": _table(nodes=_mapped(_digest), observed_s=_time),
    "historical": _table(
        derivable=_is("false: what is derivable is a candidate", lambda value: value is False),
        why_not=_text,
        deployment=_text,
        known_from=_listed(_text),
        date=_or_null(_table(first=_day, last=_day, source=_text)),
        kernel_backend=_or_null(_text),
        identities=_anything,
        shapes=_mapped(_anything),
        figures=_listed(_anything),
        changes=_listed(_table(text=_text, source=_text)),
    ),
}
"""What the body of each kind must be."""
