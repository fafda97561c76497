# SPDX-License-Identifier: Apache-2.0
"""Which NVIDIA driver a release of CUDA needs, what the driver brings into a container, and which PTX it compiles.

Core: no IO.

The figures are those of NVIDIA's release notes of each CUDA toolkit: the driver for the compatibility of a major
release, and the driver that came with each minor one. A program made with any CUDA 13 runs on every driver from 580 on;
PTX is compiled only by a driver as new as the toolkit that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

Cuda: TypeAlias = tuple[int, int]
Driver: TypeAlias = tuple[int, ...]

DRIVER_LIBRARIES = (
    "libcuda.so.1",
    "libcudadebugger.so.1",
    "libnvcuvid.so.1",
    "libnvidia-encode.so.1",
    "libnvidia-gpucomp.so.*",
    "libnvidia-ml.so.1",
    "libnvidia-nvvm.so.4",
    "libnvidia-opencl.so.1",
    "libnvidia-ptxjitcompiler.so.1",
)
"""What NVIDIA's container toolkit mounts from the host's driver, for compute, utility and video."""

MAJOR: Mapping[int, str] = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""The oldest driver on which programs of a major release run."""

MINOR: Mapping[Cuda, str] = {
    (12, 0): "525.60.13",
    (12, 1): "530.30.02",
    (12, 2): "535.54.03",
    (12, 3): "545.23.06",
    (12, 4): "550.54.14",
    (12, 5): "555.42.02",
    (12, 6): "560.28.03",
    (12, 8): "570.26",
    (12, 9): "575.51.03",
    (13, 0): "580.65.06",
    (13, 1): "590.44.01",
    (13, 2): "595.45.04",
    (13, 3): "610.43.02",
}
"""The driver that each release came with, which is the oldest that compiles its PTX; later ones are not here yet."""

_PTX: Mapping[tuple[int, int], Cuda] = {
    (8, 0): (12, 0),
    (8, 1): (12, 1),
    (8, 2): (12, 2),
    (8, 3): (12, 3),
    (8, 4): (12, 4),
    (8, 5): (12, 5),
    (8, 6): (12, 7),
    (8, 7): (12, 8),
    (8, 8): (12, 9),
}


def cuda_of(ptx: tuple[int, int]) -> Cuda:
    """Return the release of CUDA that a version of PTX came with; PTX 9 counts on as CUDA 13 does."""
    if ptx in _PTX:
        return _PTX[ptx]
    major, minor = ptx
    return (major + 4, minor) if major >= 9 else (11, 8)


def newest_ptx(driver: Driver) -> tuple[int, int]:
    """Return the newest version of PTX that a driver compiles, as far as the table goes."""
    known = [cuda for cuda, text in MINOR.items() if parse_driver(text) <= driver]
    newest = max(known, default=(11, 8))
    before = [ptx for ptx, cuda in _PTX.items() if cuda <= newest]
    return (newest[0] - 4, newest[1]) if newest[0] >= 13 else max(before, default=(7, 8))


def parse_driver(text: str) -> Driver:
    """Read a driver's version, such as ``580.65.06``; raises ValueError."""
    parts = text.split(".")
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"not a version of a driver: {text!r}")
    return tuple(int(part) for part in parts)


def oldest_driver(majors: Iterable[int]) -> str | None:
    """Return the oldest driver on which programs of some major releases run; None when there are none."""
    known = [MAJOR.get(major) or MAJOR[max(MAJOR)] for major in majors]
    return max(known, key=parse_driver, default=None)


def compiling_driver(ptx: tuple[int, int]) -> str:
    """Return the oldest driver that compiles PTX of a version, or the last known one with a word that it is newer."""
    cuda = cuda_of(ptx)
    if cuda in MINOR:
        return MINOR[cuda]
    later = [text for known, text in MINOR.items() if known >= cuda]
    return later[0] if later else f"newer than {MINOR[max(MINOR)]}"
