# SPDX-License-Identifier: Apache-2.0
"""Says that a store is not there yet, where that is an answer and no failure.

Edge: standard error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import note

if TYPE_CHECKING:
    from derive.store.local import LocalStore


def note_absent(store: LocalStore) -> None:
    """Say it, if it is so."""
    if store.is_absent:
        note(f"there is no store yet at {store.root}")
