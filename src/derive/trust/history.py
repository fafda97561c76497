# SPDX-License-Identifier: Apache-2.0
"""What became of a project's keys: which took which's place, and which are taken no longer, and since when.

Core: no IO. The records are on docs/formats/trust.md.

A signature carries no time that its maker could not have chosen. What tells early from late is another chain: each
event names the release record that was the last one then, and what a record up to that one names was there before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from derive.canonical import CanonicalError, Digest, Json, encode
from derive.errors import Corrupt, InputErrors, Problem, expected_got
from derive.images.documents import exact, second, text
from derive.records.kinds import is_line
from derive.records.model import Record, RecordError, read_record
from derive.trust.keys import PublicKey
from derive.trust.policy import KEY_NAME, Policy
from derive.trust.rotation import Rotation, read_rotation

FOLDER = "records/keys"
ROTATED = "key-rotated"
REVOKED = "key-revoked"
_FILE = re.compile(r"([0-9]{4})-(.+)\.json")
_ROTATED = ("key", "releases", "why", "rotation")
_REVOKED = ("key", "releases", "why", "since_s", "revoked_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """When a key stopped to count: the file that says so, and why.

    ``upto`` is the last release record of those whose certificates still count, None where none do; ``made_s``, in
    seconds since 1970, is for people.
    """

    file: str
    cause: Literal["rotated", "revoked"]
    upto: Digest | None
    made_s: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The events of keys in order. ``ends`` are by key id; ``newer`` and ``older`` lead from a key's id to its kin."""

    ends: Mapping[Digest, tuple[End, ...]] = field(default_factory=dict)
    newer: Mapping[Digest, PublicKey] = field(default_factory=dict)
    older: Mapping[Digest, PublicKey] = field(default_factory=dict)
    head: Digest | None = None
    count: int = 0

    def kin(self, key: PublicKey) -> tuple[PublicKey, ...]:
        """Return every key that one signer had, from the oldest to the one in use."""
        found = [key]
        while (before := self.older.get(found[0].id)) is not None:
            found.insert(0, before)
        while (after := self.newer.get(found[-1].id)) is not None:
            found.append(after)
        return tuple(found)


def read_history(files: Mapping[str, bytes]) -> tuple[History, list[Problem]]:
    """Read ``records/keys/`` (files by their names there), or say everything that is wrong with it."""
    history, problems = History(), []
    for number, name in enumerate(sorted(files), 1):
        where = f"{FOLDER}/{name}"
        try:
            record = _record(name, files[name], number, history.head)
            history = _after(history, record, where)
        except (RecordError, CanonicalError, ValueError, KeyError, Corrupt) as error:
            problems.append(Problem(where=where, message=str(error), hint="take the file as it was first committed"))
            break  # what follows leans on it
    return history, problems


def next_name(history: History, subject: str) -> str:
    """Return the file name of the next event."""
    return f"{history.count + 1:04d}-{subject}.json"


def rotated_body(rotation: Rotation, envelope: Json, releases: Digest | None, why: str) -> dict[str, Json]:
    """Return the body of the record that a key was rotated."""
    return {"key": str(rotation.old.id), "releases": _text(releases), "why": why, "rotation": envelope}


def revoked_body(
    key: Digest, *, releases: Digest | None, why: str, since_s: int | None, revoked_s: int
) -> dict[str, Json]:
    """Return the body of the record that a key is taken no longer."""
    body: dict[str, Json] = {"key": str(key), "releases": _text(releases), "why": why}
    return body | {"since_s": since_s, "revoked_s": revoked_s}


def now_trusted(policy: Policy, history: History) -> Policy:
    """Return a policy whose names stand for the keys in use, and which takes no key whose time has ended.

    Raises:
        InputErrors: when two names stand for one signer.
    """
    kin = {name: history.kin(key) for name, key in policy.keys.items()}
    problems = []
    for name, keys in kin.items():
        same = next((other for other, known in kin.items() if other < name and known[-1] == keys[-1]), None)
        if same is not None:
            where = f"pyproject.toml: tool.derive.trust.keys.{name}"
            message, hint = f"the same signer as {same}, by records/keys/", "leave one of the two names"
            problems.append(Problem(where=where, message=message, hint=hint))
    if problems:
        raise InputErrors(problems)
    return replace(policy, keys={name: keys[-1] for name, keys in kin.items()}, revoked=frozenset(history.ends))


def _record(name: str, data: bytes, number: int, head: Digest | None) -> Record:
    found = _FILE.fullmatch(name)
    if found is None or int(found[1]) != number:
        raise ValueError(f"not the name of the next event, {number:04d}-KEY.json")
    record = read_record(data)
    if encode(record.document()) + b"\n" != data:
        raise ValueError("not written as a record is")
    if record.subject != found[2] or not KEY_NAME.fullmatch(record.subject):
        raise ValueError(f"the record of a key called {record.subject!r}")
    if record.previous != head:
        raise ValueError("; ".join(("does not follow the event before it", *expected_got(head, record.previous))))
    return record


def _after(history: History, record: Record, where: str) -> History:
    known = {"head": record.digest, "count": history.count + 1}
    match record.kind:
        case "key-rotated":
            return replace(_rotated(history, record, where), **known)  # type: ignore[arg-type]
        case "key-revoked":
            body = exact(record.body, keys=_REVOKED, what="body")
            if body["since_s"] is not None:
                second(body, "since_s")
            end = End(
                file=where,
                cause="revoked",
                upto=_digest(body["releases"]),
                made_s=second(body, "revoked_s"),
                why=_line(body, "why"),
            )
            return replace(_ended(history, Digest.parse(text(body, "key")), end), **known)  # type: ignore[arg-type]
        case _:
            raise ValueError(f"a record of another kind: {record.kind!r}")


def _rotated(history: History, record: Record, where: str) -> History:
    body = exact(record.body, keys=_ROTATED, what="body")
    rotation = read_rotation(body["rotation"])
    if (rotation.name, rotation.old.id) != (record.subject, Digest.parse(text(body, "key"))):
        raise ValueError("the rotation of another key than the record is about")
    for what, one in (("old", rotation.old), ("new", rotation.new)):
        if one.id in history.ends:
            raise ValueError(f"the {what} key had ended: {history.ends[one.id][0].file}")
    if rotation.new.id in history.older:
        raise ValueError("the new key has taken another's place already")
    end = End(
        file=where,
        cause="rotated",
        upto=_digest(body["releases"]),
        made_s=rotation.made_s,
        why=_line(body, "why"),
    )
    return replace(
        _ended(history, rotation.old.id, end),
        newer={**history.newer, rotation.old.id: rotation.new},
        older={**history.older, rotation.new.id: rotation.old},
    )


def _ended(history: History, key: Digest, end: End) -> History:
    return replace(history, ends={**history.ends, key: (*history.ends.get(key, ()), end)})


def _line(body: Mapping[str, Json], key: str) -> str:
    found = text(body, key)
    if not is_line(found):
        raise ValueError(f"{key}: not text in one line that can be printed")
    return found


def _text(digest: Digest | None) -> str | None:
    return None if digest is None else str(digest)


def _digest(value: Json) -> Digest | None:
    return None if value is None else Digest.parse(str(value))
