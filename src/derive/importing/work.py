# SPDX-License-Identifier: Apache-2.0
"""What one reading of a cluster file gathers: tables of a recipe, what is the site's, and the account.

Core: no IO.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from derive.canonical import Json
from derive.fabric.transports import Fabric
from derive.importing.account import Account
from derive.importing.fields import Fields


@dataclass(slots=True)
class Work:
    """The work: ``tables`` are the recipe's, ``site`` what is said of the place by the keys of a site."""

    fields: Fields
    account: Account
    fabric: Fabric
    tables: dict[str, Json] = field(default_factory=dict)
    site: dict[str, str] = field(default_factory=dict)

    def put(self, key: str, place: str, value: Json) -> None:
        """Place a key's value in the recipe, where there is one."""
        if value is None:
            return
        set_at(self.tables, place, value)
        self.account.placed(key, place)


def set_at(tables: dict[str, Json], place: str, value: Json) -> None:
    """Set a value at a key path without dots in its keys, making tables on the way."""
    *above, last = place.split(".")
    for key in above:
        below = tables.setdefault(key, {})
        assert isinstance(below, dict)
        tables = below
    tables[last] = value
