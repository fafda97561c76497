# SPDX-License-Identifier: Apache-2.0
"""Tells what of caches cannot be right: logs that are not one log, and steps of which two things are said.

Edge: standard error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from derive.cli.console import note, table

if TYPE_CHECKING:
    from derive.cache.status import Status
    from derive.canonical import Digest


def alarm_texts(found: Status, names: Mapping[Digest, str]) -> list[str]:
    """Return each alarm that stands, with who says what; ``names`` are the project's, by key id."""
    texts = []
    for cache in found.caches:
        for alarm in cache.alarms:
            who = names.get(alarm.key) or alarm.key.short
            lines = [f"ALARM  {cache.config.name}: {who}: {alarm.what}", *(f"  {line}" for line in alarm.detail)]
            texts.append("\n".join(lines))
    for conflict in found.conflicts:
        rows = [(f"  {who}", name, text) for who, outputs in conflict.said for name, text in sorted(outputs.items())]
        texts.append(f"ALARM  {conflict.name}: two things are said of {conflict.resolved.short}\n{table(rows)}")
    return texts


def note_next(found: Status) -> None:
    """Say what to do next, where an alarm stands."""
    from derive.build.agreement import HINT

    if found.conflicts:
        note(f"  hint: {HINT}")
    if any(one.alarms for one in found.caches):
        note("  hint: ask whoever runs the registry; once that is settled, derive cache remove and add begin anew")
