# SPDX-License-Identifier: Apache-2.0
"""Tells a person that what is shown or signed rests on the word of keys that count no more.

Edge: the store, the project, standard error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import note
from derive.cli.running import root_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from derive.canonical import Digest
    from derive.store.local import LocalStore


def tell_lapsed(args: argparse.Namespace, store: LocalStore, targets: Iterable[Digest]) -> None:
    """Say on standard error what derivations rest on that the project believes no longer, where there is anything."""
    if not store.database.has_substituted():
        return
    from derive.cache.lapsed import lapsed_below, lines

    found = lapsed_below(store, root_of(args), targets)
    for line in lines(found):
        note(f"note: it rests on what counts no more: {line}")


def require_standing(args: argparse.Namespace, store: LocalStore, targets: Iterable[Digest], what: str) -> None:
    """Refuse to sign what rests on anything that the project believes no longer; raises CheckFailed."""
    if store.database.has_substituted():
        from derive.cache import lapsed

        lapsed.require_standing(store, root_of(args), targets, what)
