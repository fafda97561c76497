# SPDX-License-Identifier: Apache-2.0
"""The score of re-derivability: counted by kind and place, rounded down, whole only when all is there."""

from __future__ import annotations

from derive.canonical import sha256
from derive.capsule.located import Derivability, Located, PlaceKind, share_bp
from derive.capsule.model import Use


def one(kind: str, name: str, size: int, *places: PlaceKind) -> Located:
    return Located(use=Use(kind=kind, name=name), digest=sha256(name.encode()), size=size, places=frozenset(places))


FOUND = Derivability(
    located=(
        one("fetch-deb", "a", 100, "store", "mirror"),
        one("fetch-deb", "b", 50, "capsule"),
        one("fetch-wheel", "c", 850),
        one("content", "lock/x", 1, "project"),
        one("release", "release.json", 1, "project", "capsule"),
    ),
    asked=("store", "project", "archive", "capsule", "mirror"),
)


def test_inputs_are_counted_by_kind_and_by_every_place_that_has_them() -> None:
    rows = {row.kind: row for row in FOUND.rows}
    assert list(rows) == ["documents", "fetch-deb", "fetch-wheel"]
    assert (rows["fetch-deb"].inputs, rows["fetch-deb"].size, rows["fetch-deb"].nowhere) == (2, 150, 0)
    assert rows["fetch-deb"].held == {"store": 1, "project": 0, "archive": 0, "capsule": 1, "mirror": 1}
    assert (rows["documents"].inputs, rows["fetch-wheel"].nowhere_size) == (2, 850)


def test_the_score_is_the_share_that_is_somewhere_of_inputs_and_of_bytes() -> None:
    assert (FOUND.score_bp, FOUND.size_score_bp) == (8000, 1516)
    assert [lost.use.name for lost in FOUND.nowhere] == ["c"]


def test_one_of_very_many_that_is_nowhere_leaves_less_than_the_whole() -> None:
    assert share_bp(99_999, 100_000) == 9_999
    assert share_bp(0, 0) == 10_000
