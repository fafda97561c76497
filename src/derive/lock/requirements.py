# SPDX-License-Identifier: Apache-2.0
"""A hash-pinned requirements file from a locked set of wheels, for pip.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from derive.lock.documents import PythonLock, WheelEntry
from derive.lock.tags import MACHINES, parse_target

_HEADER = "# Generated from lock/{set}.lock.json by derive lock; do not edit.\n"

_Target = tuple[str, str]


def render_requirements(lock: PythonLock) -> str:
    """Return the file's text: a requirement per version, with every wheel's hash; markers where targets differ."""
    # A parsed lock has only well-formed target names.
    targets = {name: cast("_Target", parse_target(name)) for name in lock.targets}
    every = frozenset(targets.values())
    used: dict[str, set[_Target]] = {}
    for name, files in lock.targets.items():
        for file in files:
            used.setdefault(file, set()).add(targets[name])
    groups: dict[tuple[str, str], list[WheelEntry]] = {}
    for entry in lock.wheels:
        groups.setdefault((entry.name, entry.version), []).append(entry)
    return _HEADER.format(set=lock.set) + "".join(
        _requirement(name, version, entries, used, every) for (name, version), entries in sorted(groups.items())
    )


def _requirement(
    name: str,
    version: str,
    entries: Sequence[WheelEntry],
    used: Mapping[str, set[_Target]],
    every: frozenset[_Target],
) -> str:
    wanted = frozenset(target for entry in entries for target in used[entry.file])
    marker = marker_for(wanted, every)
    hashes = sorted({entry.sha256.hex for entry in entries})
    lines = [
        f"{name}=={version}{f' ; {marker}' if marker else ''}",
        *(f"    --hash=sha256:{digest}" for digest in hashes),
    ]
    return " \\\n".join(lines) + "\n"


def marker_for(wanted: frozenset[_Target], every: frozenset[_Target]) -> str:
    """Return the shortest of three forms that picks just these (Python, architecture) pairs; empty for all of them."""
    if wanted == every:
        return ""
    pythons = sorted({python for python, _ in wanted}, key=_minor)
    architectures = sorted({architecture for _, architecture in wanted})
    by_python = frozenset(target for target in every if target[0] in pythons)
    by_architecture = frozenset(target for target in every if target[1] in architectures)
    if wanted == by_python:
        return _any_of([f'python_version == "{python}"' for python in pythons])
    if wanted == by_architecture:
        return _any_of([f'platform_machine == "{MACHINES[architecture]}"' for architecture in architectures])
    pairs = sorted(wanted, key=lambda target: (_minor(target[0]), target[1]))
    return _any_of([f'(python_version == "{p}" and platform_machine == "{MACHINES[a]}")' for p, a in pairs])


def _any_of(terms: Sequence[str]) -> str:
    return " or ".join(terms)


def _minor(python: str) -> int:
    return int(python.partition(".")[2])
