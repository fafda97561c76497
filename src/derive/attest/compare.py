# SPDX-License-Identifier: Apache-2.0
"""Where what is said of an image differs from what is known of it here: every key, nothing absent, nothing added.

Core: no IO.

What two may say differently who are both right is taken over before: see :mod:`derive.attest.allowed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from derive.attest.allowed import expected
from derive.canonical import Json, encode

_SHOWN = 200


def differences(kind: str, known: Mapping[str, Json], said: Mapping[str, Json]) -> tuple[str, ...]:
    """Return what differs in two predicates of one type, a line with its key path for each; none where they agree."""
    wanted = expected(kind, known, said)
    return () if encode(wanted) == encode(said) else tuple(_differ("", wanted, said))


def _differ(path: str, known: Json, said: Json) -> Iterator[str]:
    if encode(known) == encode(said):
        return
    if isinstance(known, Mapping) and isinstance(said, Mapping):
        yield from _objects(path, known, said)
    elif isinstance(known, list | tuple) and isinstance(said, list | tuple):
        yield from _lists(path, known, said)
    else:
        yield f"{path or 'all of it'}: expected {_value(known)}, says {_value(said)}"


def _objects(path: str, known: Mapping[str, Json], said: Mapping[str, Json]) -> Iterator[str]:
    for key in sorted(known.keys() | said.keys()):
        below = f"{path}.{_text(key)}" if path else _text(key)
        if key not in said:
            yield f"{below}: not said"
        elif key not in known:
            yield f"{below}: said, and nothing that is known here"
        else:
            yield from _differ(below, known[key], said[key])


def _lists(path: str, known: Sequence[Json], said: Sequence[Json]) -> Iterator[str]:
    """Compare lists of things that have names by those, others by place."""
    names, others = (_named(one) for one in (known, said))
    if names is None or others is None or len(names) != len(known):
        for number in range(max(len(known), len(said))):
            yield from _placed(f"{path}[{number}]", known[number : number + 1], said[number : number + 1])
        return
    for name in sorted(names.keys() | others.keys()):
        below = f"{path}[{_text(name)}]"
        if name not in others:
            yield f"{below}: not named"
        elif name not in names:
            yield f"{below}: named, and no part of it"
        else:
            yield from _differ(below, names[name], others[name])
    if len(others) != len(said):
        yield f"{path}: something is named twice"
    elif list(names) != list(others) and names.keys() == others.keys():
        yield f"{path}: in another order"


def _placed(path: str, known: Sequence[Json], said: Sequence[Json]) -> Iterator[str]:
    if known and said:
        yield from _differ(path, known[0], said[0])
    else:
        yield f"{path}: {'not named' if known else 'named, and no part of it'}"


def _named(items: Sequence[Json]) -> dict[str, Json] | None:
    """Return the items of a list by their names, None where one has none."""
    found: dict[str, Json] = {}
    for item in items:
        name = _name(item)
        if name is None:
            return None
        found[name] = item
    return found


def _name(item: Json) -> str | None:
    """Return what tells an item from the others of its list, None where nothing is sure to."""
    if not isinstance(item, Mapping):
        return None
    digests, notes = item.get("digest"), item.get("annotations")
    hashed = [one for one in digests.values() if isinstance(one, str)] if isinstance(digests, Mapping) else []
    step = notes.get("derivation") if isinstance(notes, Mapping) else None
    first = item.get("bom-ref", item.get("ref", item.get("name")))
    parts = [one for one in (first, *hashed, step) if isinstance(one, str)]
    return " ".join(parts) or None


def _value(value: Json) -> str:
    return _text(encode(value).decode("utf-8", "replace"))


def _text(text: str) -> str:
    """Return a text with nothing in it that a terminal would take for a command, and not too long for a line."""
    shown = text.encode("unicode_escape").decode()
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
