# SPDX-License-Identifier: Apache-2.0
"""The keys that matter to a person at a place: their own, those that a project trusts, those revoked; each once.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derive.canonical import Digest
from derive.errors import InputErrors, expected_got
from derive.releases.policy import date_text
from derive.trust.history import End, History
from derive.trust.keys import PublicKey
from derive.trust.policy import Policy

_SHORTEST = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedKey:
    """A key by id; ``trusted`` are the names that the project has for it. Of a revoked id the key may be unknown.

    ``rotated`` is when another took its place, which is no revocation; ``revoked`` is by this user, or by the project.
    """

    id: Digest
    names: tuple[str, ...]
    public: PublicKey | None
    own: bool
    trusted: tuple[str, ...]
    revoked: bool
    rotated: End | None = None


def listed_keys(
    own: Mapping[str, PublicKey], policy: Policy | None, history: History, revoked: Mapping[Digest, str]
) -> tuple[ListedKey, ...]:
    """Join keys by id, in the order of their names; a key that was rotated has the name of the one in its place, too.

    ``history`` is the project's; ``revoked`` are the ids that this user takes no longer, with the names that they had.
    """
    trusted = policy.keys if policy is not None else {}
    ends = {(key, end.cause): end for key, found in history.ends.items() for end in reversed(found)}
    names: dict[Digest, set[str]] = {key: set() for key in history.ends}
    for ended, name in revoked.items():
        names.setdefault(ended, set()).update({name} - {""})
    publics: dict[Digest, PublicKey] = {}
    kin = ((name, one) for name, key in trusted.items() for one in history.kin(key))
    for name, key in (*own.items(), *kin):
        publics[key.id] = key
        names.setdefault(key.id, set()).add(name)
    owned = {key.id for key in own.values()}
    found = [
        ListedKey(
            id=key,
            names=tuple(sorted(names[key])),
            public=publics.get(key),
            own=key in owned,
            trusted=tuple(sorted(name for name, one in trusted.items() if one.id == key)),
            revoked=key in revoked or (key, "revoked") in ends,
            rotated=ends.get((key, "rotated")),
        )
        for key in names
    ]
    return tuple(sorted(found, key=lambda one: (one.names, one.id)))


def find_key(text: str, keys: tuple[ListedKey, ...]) -> ListedKey:
    """Return the key of a name, or of an id that may be cut to 12 or more digits; a whole id need not be known.

    Raises:
        InputErrors: when no key, or more than one, is meant.
    """
    digits = text.removeprefix("sha256:")
    is_hex = len(digits) <= 64 and all(digit in "0123456789abcdef" for digit in digits)
    found = [one for one in keys if text in one.names]
    if not found and is_hex and len(digits) >= _SHORTEST:
        found = [one for one in keys if one.id.hex.startswith(digits)]
        if not found and len(digits) == 64:
            return ListedKey(id=Digest(digits), names=(), public=None, own=False, trusted=(), revoked=False)
    if len(found) > 1:
        several = [f"may be    {one.id}: {_state(one)}" for one in found]
        hint = "give its id, of which 12 digits do"
        raise InputErrors.one(f"{text!r} names more than one key", detail=several, hint=hint)
    if not found:
        detail = expected_got("a name, or 12 or more digits of an id", text)
        raise InputErrors.one("no such key", detail=detail, hint="those that there are: derive key list")
    return found[0]


def _state(key: ListedKey) -> str:
    """Say what tells a key from another of its name."""
    ended = [f"rotated {date_text(key.rotated.made_s)}, see {key.rotated.file}"] if key.rotated is not None else []
    ended += ["revoked"] if key.revoked else []
    if ended:
        return "; ".join(ended)
    return f"in use, trusted here as {' and '.join(key.trusted)}" if key.trusted else "yours, and not trusted here"
