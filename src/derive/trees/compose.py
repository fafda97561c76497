# SPDX-License-Identifier: Apache-2.0
"""A union of trees that overwrites nothing in silence: what two parts give differently is an error, or declared.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

from derive.canonical import escape
from derive.errors import InputErrors, Problem
from derive.trees.listing import Directory, Entry, File, Listing, Symlink, nar_key

SHOWN = 20
"""Collisions named one by one; the rest are counted."""


def compose(parts: Sequence[tuple[str, Listing]], wins: Mapping[bytes, str], *, where: str = "") -> Listing:
    """Return the union of named trees; the order of the parts decides nothing.

    Folders merge; an entry that several parts give alike (type, execute bit, contents or target) stands once. Where
    parts differ, ``wins`` names the part whose entry stands at exactly that path. A rule cannot take away what other
    parts put below a folder, and a rule that decides nothing is a problem.

    Raises:
        InputErrors: every collision (the first 20 by path, then their number) and every idle rule, with ``where``.
        ValueError: when two parts have one name.
    """
    if len({name for name, _ in parts}) != len(parts):
        raise ValueError("two parts of one name")
    merged: dict[bytes, Entry] = {}
    contested: set[bytes] = set()
    for _, listing in parts:
        for path, entry in listing.items():
            if merged.setdefault(path, entry) != entry:
                contested.add(path)
    collisions: list[Problem] = []
    for path in sorted(contested, key=nar_key):
        claims = [(name, listing[path]) for name, listing in parts if path in listing]
        winner = next((entry for name, entry in claims if name == wins.get(path)), None)
        below = None if isinstance(winner, Directory) else _below(path, parts)
        if winner is None or below is not None:
            collisions.append(_collision(path, claims, below, where))
        else:
            merged[path] = winner
    problems = [*_capped(collisions, where), *_idle(wins, contested, parts, where)]
    if problems:
        raise InputErrors(problems)
    if not merged:
        return Listing.of({})
    return Listing({path: merged[path] for path in sorted(merged, key=nar_key)})


def select(listing: Listing, paths: Iterable[bytes], *, where: str = "") -> Listing:
    """Return the entries at these paths, all that lies below them, and the folders above them.

    Raises:
        InputErrors: every path at which there is nothing.
    """
    wanted = frozenset(paths)
    absent = sorted(wanted - set(listing))
    if absent:
        raise InputErrors([Problem(where=where, message=f"nothing at {escape(path)}") for path in absent])
    return Listing.of({path: entry for path, entry in listing.items() if _within(path, wanted)})


def _within(path: bytes, wanted: frozenset[bytes]) -> bool:
    while path not in wanted:
        if not path:
            return False
        path = path.rpartition(b"/")[0]
    return True


def _below(path: bytes, parts: Sequence[tuple[str, Listing]]) -> tuple[str, bytes] | None:
    """Return the first part that puts something below a path, and what it puts there."""
    prefix = path + b"/" if path else b""
    for name, listing in parts:
        if isinstance(listing.get(path), Directory):
            for inner in listing:
                if inner.startswith(prefix) and inner != path:
                    return name, inner
    return None


def _collision(
    path: bytes, claims: Sequence[tuple[str, Entry]], below: tuple[str, bytes] | None, where: str
) -> Problem:
    groups: dict[Entry, list[str]] = {}
    for name, entry in claims:
        groups.setdefault(entry, []).append(name)
    names = ", ".join(sorted({members[0] for members in groups.values()}))
    width = max(len(", ".join(members)) for members in groups.values())
    detail = sorted(f"{', '.join(members):<{width}}  {_describe(entry)}" for entry, members in groups.items())
    hint = "leave it out of all but one, or say in a compose under wins whose entry stands"
    if below is not None:
        part, inner = below
        links = any(isinstance(entry, Symlink) for entry in groups)
        detail.append(
            f"{part} puts {escape(inner)} below it{', which would lead through the symlink' if links else ''}"
        )
        hint = f"let {part}'s folder stand under wins, or take {escape(inner)} out of {part}"
    message = f"collision at {escape(path) or 'the root'}: {names} differ"
    return Problem(where=where, message=message, detail=tuple(detail), hint=hint)


def _describe(entry: Entry) -> str:
    match entry:
        case Directory():
            return "folder"
        case Symlink(target):
            return f"symlink to {escape(target)}"
        case File(executable, size, digest):
            return f"{'executable' if executable else 'file'} of {size} bytes, {digest}"
        case _:
            assert_never(entry)


def _capped(collisions: Sequence[Problem], where: str) -> Iterator[Problem]:
    yield from collisions[:SHOWN]
    if len(collisions) > SHOWN:
        yield Problem(where=where, message=f"collisions in all: {len(collisions)}, the first {SHOWN} shown")


def _idle(
    wins: Mapping[bytes, str], contested: set[bytes], parts: Sequence[tuple[str, Listing]], where: str
) -> Iterator[Problem]:
    names = [name for name, _ in parts]
    for path, winner in wins.items():
        holders = [name for name, listing in parts if path in listing]
        shown = escape(path)
        if winner not in names:
            yield Problem(
                where=where,
                message=f"wins: {shown}: no part is called {winner}",
                detail=(f"parts  {', '.join(names)}",),
            )
        elif path not in contested:
            got = f"held by {', '.join(holders)}" if holders else "held by no part"
            yield Problem(where=where, message=f"wins: {shown}: the rule decides nothing", detail=(got,))
        elif winner not in holders:
            yield Problem(
                where=where,
                message=f"wins: {shown}: {winner} does not have it",
                detail=(f"held by {', '.join(holders)}",),
            )
