# SPDX-License-Identifier: Apache-2.0
"""Tells what came out otherwise when steps were built again, and what differs inside.

Edge: the store, standard error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from derive.cli.console import note

if TYPE_CHECKING:
    from derive.build.check import Difference
    from derive.store.local import LocalStore


def tell_differences(differences: Iterable[Difference], store: LocalStore) -> None:
    """Say of each difference which output it is in, and where, with a bounded look inside."""
    from derive.differ.stored import IN_PASSING, differ_outputs
    from derive.why.render import render

    for one in differences:
        note(_explain(one))
        lines = differ_outputs(one.derivation, one.first, one.second, (store, store), IN_PASSING)
        for line in render(lines, colour=False).splitlines():
            note(f"       {line}")


def _explain(difference: Difference) -> str:
    place = f"{difference.path or 'its one file'}, {difference.what}"
    if difference.offset is not None:
        place += f", at byte {difference.offset}"
    return "\n".join(
        [
            f"differs: {difference.derivation}, output {difference.output}: {place}",
            f"       first   {difference.first}",
            f"       second  {difference.second}",
        ]
    )
