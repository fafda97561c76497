# SPDX-License-Identifier: Apache-2.0
"""Which wheels run on which target, by the names of their files.

Core: no IO. Reads nothing of the running interpreter: the target is another machine's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's architecture names -> the kernel's, as wheel tags have them."""

_TARGET = re.compile(r"cp3([0-9]+)-(amd64|arm64)")
_OLDEST_GLIBC = {"amd64": 5, "arm64": 17}
_LEGACY = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
_STABLE_ABI = re.compile(r"cp3([0-9]+)")


def parse_target(name: str) -> tuple[str, str] | None:
    """Read ``cp313-amd64`` as (``3.13``, ``amd64``); None for anything else."""
    match = _TARGET.fullmatch(name)
    return (f"3.{match[1]}", match[2]) if match else None


def fits(file: str, python: str, architecture: str) -> bool:
    """Say whether a wheel's name promises Python and architecture; glibc is the resolver's business.

    Quick and without other packages, for every plan; :func:`best` decides while locking.
    """
    parts = file.removesuffix(".whl").split("-")
    if not file.endswith(".whl") or len(parts) not in (5, 6):
        return False
    pythons, abis, platforms = (part.split(".") for part in parts[-3:])
    machine = MACHINES[architecture]
    if not any(
        tag == "any" or (tag.startswith(("manylinux", "linux")) and tag.endswith(f"_{machine}")) for tag in platforms
    ):
        return False
    minor = int(python.partition(".")[2])
    return any(_python_fits(tag, abis, minor) for tag in pythons)


def _python_fits(tag: str, abis: Iterable[str], minor: int) -> bool:
    if tag == f"cp3{minor}":
        return any(abi in (tag, "abi3", "none") for abi in abis)
    stable = _STABLE_ABI.fullmatch(tag)
    if stable:
        return "abi3" in abis and 2 <= int(stable[1]) <= minor
    return "none" in abis and (tag == "py3" or (tag.startswith("py3") and tag[3:].isdigit() and int(tag[3:]) <= minor))


def platforms(architecture: str, glibc: str) -> list[str]:
    """Return the platform tags of a target, the best first: every glibc from its own down to the oldest."""
    machine = MACHINES[architecture]
    found = []
    for minor in range(int(glibc.partition(".")[2]), _OLDEST_GLIBC[architecture] - 1, -1):
        found.append(f"manylinux_2_{minor}_{machine}")
        if minor in _LEGACY:
            found.append(f"{_LEGACY[minor]}_{machine}")
    return [*found, f"linux_{machine}"]


def ranks(python: str, architecture: str, glibc: str) -> dict[str, int]:
    """Return every tag that a target accepts with its rank, 0 the best."""
    from packaging.tags import compatible_tags, cpython_tags

    major, minor = (int(part) for part in python.split("."))
    interpreter = f"cp{major}{minor}"
    wanted = platforms(architecture, glibc)
    tags = [
        *cpython_tags((major, minor), abis=[interpreter], platforms=wanted),
        *compatible_tags((major, minor), interpreter=interpreter, platforms=wanted),
    ]
    return {str(tag): rank for rank, tag in reversed(list(enumerate(tags)))}


def best(files: Iterable[str], accepted: Mapping[str, int]) -> str | None:
    """Return the file that suits best, or None: by tag, then the highest build number, then the name."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    found: list[tuple[int, tuple[int, str], str]] = []
    for file in files:
        try:
            _, _, build, tags = parse_wheel_filename(file)
        except InvalidWheelFilename:
            continue
        suiting = [accepted[str(tag)] for tag in tags if str(tag) in accepted]
        if suiting:
            number, suffix = build or (0, "")
            found.append((min(suiting), (-number, suffix), file))
    return min(found)[2] if found else None
