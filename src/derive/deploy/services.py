# SPDX-License-Identifier: Apache-2.0
"""Which of the services that nodes know is meant.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

from derive.errors import InputErrors
from derive.words import near

_DEPLOY = "derive deploy RELEASE --shape SHAPE"


def chosen(named: str | None, there: Sequence[str]) -> tuple[str, ...]:
    """Return the services that are meant: the one that is named, or all where none is.

    Raises:
        InputErrors: when one is named that nobody knows.
    """
    if named is None or named in there:
        return tuple(there) if named is None else (named,)
    hint = (near(named, there) or f"there is {', '.join(there)}") if there else _DEPLOY
    raise InputErrors.one(f"no node knows a service {named!r}", hint=hint)


def only_one(named: str | None, there: Sequence[str], *, nothing: str = _DEPLOY) -> str:
    """Return the one service that is meant; ``nothing`` is the next step where there is none.

    Raises:
        InputErrors: where that is none or several, or none of its name.
    """
    found = chosen(named, there)
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputErrors.one("nothing was deployed to this site", hint=nothing)
    raise InputErrors.one("several services are there", hint=f"name one: {', '.join(found)}")
