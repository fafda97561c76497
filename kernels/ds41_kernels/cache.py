# SPDX-License-Identifier: Apache-2.0
"""Kernels that were compiled beforehand, found by name and row count and loaded by TileLang's own cache.

A folder holds `ds41-kernels.json`, which lists units, and TileLang's cache beside it; nothing here writes to it. A unit
is one program of a kernel in one shape, with the tile for a range of row counts, for one GPU architecture:
`act_quant/quantise/bf16-5120/rows-1/sm_90a`. Each has the key that TileLang must compute for it, which covers the
function, its arguments, the target, the settings and TileLang's version: another key is an error, never a compile.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds41_kernels.sealing import KernelMissing, expecting

INDEX = "ds41-kernels.json"
FOLDER_VARIABLE = "TILELANG_CACHE_DIR"

Kernel = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One compiled kernel of the index. `first` and `last` bound its rows; `last` is None where there is no bound.

    `keys` maps a machine (`x86_64`) to the entry in TileLang's cache on it.
    """

    name: str
    kernel: str
    program: str
    function: str
    shape: str
    gpu: str
    first: int
    last: int | None
    arguments: Mapping[str, Any]
    pass_configs: Mapping[str, Any]
    compile_flags: tuple[str, ...]
    keys: Mapping[str, str]

    def takes(self, rows: int) -> bool:
        """Say whether this unit's tile is for so many rows."""
        return self.first <= rows and (self.last is None or rows <= self.last)


def read_index(folder: Path) -> tuple[Unit, ...]:
    """Return the units that a folder's index lists.

    Raises:
        FileNotFoundError: where there is no index.
        ValueError: where it is none.
    """
    file = folder / INDEX
    document = json.loads(file.read_bytes())
    if not isinstance(document, dict) or document.get("derive") != "kernel-index/1":
        raise ValueError(f"{file}: not an index of kernels")
    return tuple(
        Unit(
            name=one["unit"],
            kernel=one["kernel"],
            program=one["program"],
            function=one["function"],
            shape=one["shape"],
            gpu=one["gpu"],
            first=one["rows"][0],
            last=one["rows"][1],
            arguments=one["arguments"],
            pass_configs=one["pass-configs"],
            compile_flags=tuple(one["compile-flags"]),
            keys=one["keys"],
        )
        for one in document["units"]
    )


class KernelCache:
    """The kernels of one folder. TileLang has one cache folder per process, so there is one of these in use."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.units: tuple[Unit, ...] = read_index(self.folder)
        self._loaded: dict[str, Kernel] = {}
        self._lock = threading.RLock()
        self._tiles: dict[tuple[str, str, str, str], tuple[Unit, ...]] = {}
        for unit in self.units:
            place = (unit.kernel, unit.program, unit.shape, unit.gpu)
            self._tiles[place] = (*self._tiles.get(place, ()), unit)

    def unit(self, kernel: str, program: str, shape: str, rows: int, gpu: str | None = None) -> Unit:
        """Return the unit that serves so many rows (1 or more) on an architecture; that of the current device if None.

        Raises:
            KernelMissing: where the index has none.
        """
        place = (kernel, program, shape, gpu or self.gpu())
        for unit in self._tiles.get(place, ()):
            if unit.takes(rows):
                return unit
        reason = f"the index has none for {rows} rows"
        raise KernelMissing("/".join((*place[:3], "*", place[3])), key=None, folder=self.folder, reason=reason)

    def load(self, kernel: str, program: str, shape: str, rows: int, gpu: str | None = None) -> Kernel:
        """Return what runs a program for so many rows; it takes the function's parameters in order, outputs included.

        Loaded at most once; then this is a look into a dict. Safe from several threads.

        Raises:
            KernelMissing: naming unit, key and folder.
        """
        unit = self.unit(kernel, program, shape, rows, gpu)
        return self._loaded.get(unit.name) or self.load_unit(unit)

    def load_unit(self, unit: Unit) -> Kernel:
        """Return what runs a unit; raises as :meth:`load`."""
        with self._lock:
            found = self._loaded.get(unit.name)
            if found is None:
                found = self._loaded[unit.name] = self._from_tilelang(unit)
            return found

    def load_all(self, gpu: str | None = None) -> Sequence[Unit]:
        """Load every unit of an architecture, so that what is missing is known before the first request."""
        wanted = [unit for unit in self.units if unit.gpu == (gpu or self.gpu())]
        for unit in wanted:
            self.load_unit(unit)
        return wanted

    def gpu(self) -> str:
        """Return the architecture of the current device, as the index writes it."""
        import torch

        return self._architecture(torch.cuda.current_device())

    @functools.cache  # noqa: B019 - one cache per process, as said above
    def _architecture(self, device: int) -> str:
        import torch

        number = "sm_{}{}".format(*torch.cuda.get_device_capability(device))
        known = {unit.gpu for unit in self.units}
        return next((gpu for gpu in (f"{number}a", f"{number}f", number) if gpu in known), f"{number}a")

    def _from_tilelang(self, unit: Unit) -> Kernel:
        self._point_tilelang_here()
        key = unit.keys.get(platform.machine())
        if key is None:
            reason = f"not built for {platform.machine()} ({', '.join(sorted(unit.keys))})"
            raise KernelMissing(unit.name, key=None, folder=self.folder, reason=reason)
        import tilelang

        module = importlib.import_module(f"ds41_kernels.{unit.kernel}.kernel")
        function = getattr(module, unit.function)(**unit.arguments)
        with expecting(unit.name, key):
            kernel: Kernel = tilelang.compile(
                function,
                out_idx=None,
                target={"kind": "cuda", "arch": unit.gpu},
                execution_backend="tvm_ffi",
                pass_configs=dict(unit.pass_configs) or None,
                compile_flags=list(unit.compile_flags) or None,
            )
        self._require_key(unit, kernel, key)
        return kernel

    def _require_key(self, unit: Unit, kernel: Kernel, key: str) -> None:
        """What TileLang had in memory already did not pass the place where keys are compared."""
        found = getattr(kernel, "_tilelang_cache_key", None)
        if found != key:
            reason = f"what is asked for is not what was built: TileLang gave key {found}"
            raise KernelMissing(unit.name, key=key, folder=self.folder, reason=reason)

    def _point_tilelang_here(self) -> None:
        """Make this the folder of TileLang's cache: it is read from the environment, each time."""
        named = os.environ.setdefault(FOLDER_VARIABLE, str(self.folder))
        if Path(named).absolute() != self.folder.absolute():
            raise ValueError(f"{FOLDER_VARIABLE} is {named}, and these kernels are in {self.folder}")


@functools.cache
def opened() -> KernelCache:
    """Return the kernels of `$TILELANG_CACHE_DIR`.

    Raises:
        LookupError: where the variable is not set.
        FileNotFoundError: where its folder has no index.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        raise LookupError(f"{FOLDER_VARIABLE} names no folder, and there the compiled kernels are to be found")
    return KernelCache(named)


def load(kernel: str, program: str, shape: str, rows: int, gpu: str | None = None) -> Kernel:
    """Return what runs a program for so many rows, from `$TILELANG_CACHE_DIR`: see :meth:`KernelCache.load`."""
    return opened().load(kernel, program, shape, rows, gpu)
