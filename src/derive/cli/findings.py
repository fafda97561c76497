# SPDX-License-Identifier: Apache-2.0
"""What verifying an image found, as tables and lines for people.

Edge: none of its own; it stands beside the command that prints it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from derive.cli.console import table


def findings_text(body: Mapping[str, Any], *, everything: bool) -> str:
    """Return a report's document as text; with ``everything`` also the exceptions that were used, and licences."""
    parts = []
    if body["findings"]:
        rows = [(one["rule"], one["owner"], one.get("path", ""), one["what"]) for one in body["findings"]]
        parts += [table([("finding", "of", "path", "what"), *rows]), "\n".join(_explained(body["findings"]))]
    if body["gpu"]:
        parts.append(_gpu(body["gpu"]))
    if body["driver"]["oldest"] is not None:
        parts.append(_driver(body["driver"]))
    if everything:
        parts += _long(body)
    return "\n\n".join(parts) if parts else "nothing is wrong"


def _explained(findings: Sequence[Mapping[str, str]]) -> list[str]:
    """Say what was expected and got of each finding, and what each kind of finding asks for, once."""
    lines = []
    for one in findings:
        detail = [f"{key} {one[key]}" for key in ("expected", "got") if key in one]
        if detail:
            lines.append(f"{one['rule']}  {one.get('path') or one['owner']}: {'; '.join(detail)}")
    hints = sorted({f"{one['rule']}: {one['hint']}" for one in findings if "hint" in one})
    return [*lines, *(f"next  {hint}" for hint in hints)]


def _gpu(rows: Sequence[Mapping[str, Any]]) -> str:
    devices = sorted(rows[0]["usable"], key=lambda name: int(name.removeprefix("sm_")))
    cells = [
        (
            row["owner"],
            str(row["files"]),
            str(row["codes"]),
            *(str(row["usable"][device]) for device in devices),
            " ".join(row["architectures"]),
        )
        for row in rows
    ]
    head = ("GPU code of", "files", "codes", *devices, "architectures")
    return table([head, *cells], right=frozenset(range(1, 3 + len(devices))))


def _driver(need: Mapping[str, Any]) -> str:
    text = f"driver {need['oldest']} or newer, for CUDA {need['cuda'][-1]}"
    if need["for_ptx_that_is_used"] is not None:
        text += f"; {need['for_ptx_that_is_used']} or newer where PTX is compiled"
    return text


def _long(body: Mapping[str, Any]) -> list[str]:
    parts = []
    if body["exceptions"]:
        rows = [(one["rule"], str(one["findings"]), one["reason"]) for one in body["exceptions"]]
        parts.append(table([("exception", "findings", "reason"), *rows], right=frozenset({1})))
    licences = sorted((package, licence) for licence, packages in body["licences"].items() for package in packages)
    if licences:
        parts.append(table([("package", "licence"), *((package, licence[:100]) for package, licence in licences)]))
    return parts
