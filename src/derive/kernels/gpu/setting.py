# SPDX-License-Identifier: Apache-2.0
"""Where a part of the run finds things: the bundle, the kernels' cases, the card, and where to write.

Edge: environment, the file system, the import path.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One part's surroundings. ``kernels`` limits the run to some; ``seed`` is the run's, each use adds to it."""

    bundle: Path
    work: Path
    kernels: tuple[str, ...] = ()
    seed: int = 0
    gpu: str | None = None

    @property
    def cache(self) -> Path:
        """The kernels compiled beforehand."""
        return self.bundle / "cache"

    def environment(self) -> dict[str, str]:
        """Return variables for a child that imports TileLang and the kernels from the bundle."""
        paths = [str(self.bundle / "package"), str(self.bundle / "site")]
        own = os.environ.get("PYTHONPATH")
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*paths, *([own] if own else [])]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TILELANG_CACHE_DIR": str(self.cache),
            "HOME": str(self.work),
            "CUDA_CACHE_DISABLE": "1",
        }

    def manifest(self) -> Mapping[str, Any]:
        """Return what the bundle says of itself."""
        found: Mapping[str, Any] = json.loads((self.bundle / "bundle.json").read_text("utf-8"))
        return found

    def cases(self) -> Iterator[tuple[str, Any]]:
        """Yield each kernel's cases, with the kernel's name."""
        from ds41_kernels.protocol import cases_of  # type: ignore[import-not-found]

        for name in sorted({unit["kernel"] for unit in self.manifest()["units"]}):
            if not self.kernels or name in self.kernels:
                for case in cases_of(importlib.import_module(f"ds41_kernels.{name}.bench")):
                    yield name, case

    def generator(self, device: Any, *salt: object) -> Any:
        """Return a source of random numbers that depends on the run's seed and on what it is for."""
        import zlib

        import torch  # type: ignore[import-not-found]

        mixed = zlib.crc32("/".join(map(str, salt)).encode())
        return torch.Generator(device=device).manual_seed((self.seed << 32 | mixed) % 2**63)


@dataclass(slots=True)
class Served:
    """The units that answered since it was last asked."""

    names: set[str] = field(default_factory=set)

    def take(self) -> list[str]:
        """Return them sorted, and forget them."""
        found, self.names = sorted(self.names), set()
        return found


@contextmanager
def watching_units() -> Iterator[Served]:
    """While this lasts, note which units are asked for."""
    from ds41_kernels.cache import KernelCache  # type: ignore[import-not-found]

    served, plain = Served(), KernelCache.unit

    def unit(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = plain(self, *args, **kwargs)
        served.names.add(found.name)
        return found

    KernelCache.unit = unit
    try:
        yield served
    finally:
        KernelCache.unit = plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended: ``status`` is None where it had to be stopped. ``said`` is what it printed, if kept."""

    status: int | None
    said: str


def run_program(words: Sequence[str], environment: Mapping[str, str], seconds: int, *, keep: bool) -> Ended:
    """Run a program for so long at most; with it ends everything that it started.

    What it prints is kept, or else goes to standard error.
    """
    into = subprocess.PIPE if keep else sys.stderr
    with subprocess.Popen(
        words,
        env=dict(environment),
        stdout=into,
        stderr=subprocess.STDOUT if keep else None,
        start_new_session=True,
    ) as running:
        try:
            said, _ = running.communicate(timeout=seconds)
            status: int | None = running.returncode
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            said, _ = running.communicate()
            status = None
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)
            raise
    return Ended(status=status, said=(said or b"").decode("utf-8", "replace"))


def say(text: str) -> None:
    """Tell how far it is, on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def decimal(value: float) -> dict[str, str] | None:
    """Write a number that is no integer as reports do; NaN and infinity are null."""
    return {"decimal": f"{value:.6g}"} if math.isfinite(value) else None
