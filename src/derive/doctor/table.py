# SPDX-License-Identifier: Apache-2.0
"""Every check, in the order in which they are told.

Core: no IO.
"""

from __future__ import annotations

from derive.doctor import (
    table_benchmark,
    table_fabric,
    table_guard,
    table_image,
    table_project,
    table_recipe,
    table_site,
)
from derive.doctor.check import Check
from derive.errors import InputErrors
from derive.words import nearest

CHECKS: tuple[Check, ...] = (
    *table_project.CHECKS,
    *table_recipe.CHECKS,
    *table_benchmark.CHECKS,
    *table_guard.CHECKS,
    *table_image.CHECKS,
    *table_site.CHECKS,
    *table_fabric.CHECKS,
)
"""All checks. Ids are distinct, and checks of one area stand together."""


def check_named(name: str) -> Check:
    """Return a check by its id; raises InputErrors with the nearest names where there is none."""
    for check in CHECKS:
        if check.id == name:
            return check
    names = [check.id for check in CHECKS]
    meant = next((one for one in names if one.endswith(f".{name}")), None) or nearest(name, names)
    hint = f"did you mean {meant}?" if meant else "derive doctor lists them all"
    raise InputErrors.one(f"no check is called {name!r}", hint=hint)
