# SPDX-License-Identifier: Apache-2.0
"""What a new resolution may move: nothing that is locked, some names, or everything.

Core: no IO.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never


@dataclass(frozen=True, slots=True)
class KeepAll:
    """Everything locked stays, where the resolver allows it."""


@dataclass(frozen=True, slots=True)
class MoveAll:
    """Everything is found afresh."""


@dataclass(frozen=True, slots=True)
class MoveNames:
    """Only these packages are found afresh, with what must move with them."""

    names: frozenset[str]


Keep: TypeAlias = KeepAll | MoveAll | MoveNames


def stays(keep: Keep, name: str) -> bool:
    """Say whether a package's locked version is to be kept."""
    match keep:
        case KeepAll():
            return True
        case MoveAll():
            return False
        case MoveNames(names=names):
            return name not in names
        case _:
            assert_never(keep)
