# SPDX-License-Identifier: Apache-2.0
"""GPU code by architecture, and on which GPUs it can be used.

Core: no IO.

Machine code (a cubin) of ``sm_120`` runs on every GPU of that major version from that minor version on. With ``f`` it
runs on its family, which are the same GPUs; with ``a`` on that GPU alone. PTX is compiled by the driver: for any GPU
that is not older, but with ``a`` and ``f`` for the same GPUs as such machine code; and only by a driver that knows the
version of PTX.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Variant: TypeAlias = Literal["", "a", "f"]

_TEXT = re.compile(r"(?P<kind>sm|compute)_(?P<number>[0-9]{2,4})(?P<variant>[af]?)(?:/(?P<isa>[0-9]+\.[0-9]+))?")


@dataclass(frozen=True, slots=True, order=True)
class GpuCode:
    """Code for one architecture. ``isa`` is the version of PTX, such as (9, 0), and None of machine code."""

    number: int
    variant: Variant = ""
    isa: tuple[int, int] | None = None

    def __str__(self) -> str:
        if self.isa is None:
            return f"sm_{self.number}{self.variant}"
        return f"compute_{self.number}{self.variant}/{self.isa[0]}.{self.isa[1]}"

    def runs_on(self, device: int, newest_ptx: tuple[int, int] | None = None) -> bool:
        """Say whether a GPU, as 121 for ``sm_121``, can use this code; ``newest_ptx`` is what its driver knows."""
        if self.variant == "a":
            fits = self.number == device
        elif self.isa is None or self.variant == "f":
            fits = self.number // 10 == device // 10 and self.number <= device
        else:
            fits = self.number <= device
        return fits and (self.isa is None or newest_ptx is None or self.isa <= newest_ptx)


def parse_code(text: str) -> GpuCode:
    """Read what ``str`` of one gives; raises ValueError."""
    found = _TEXT.fullmatch(text)
    if found is None or (found["kind"] == "compute") != (found["isa"] is not None):
        raise ValueError(f"no GPU architecture: {text!r}")
    return GpuCode(int(found["number"]), variant_of(found["variant"]), _version(found["isa"]) if found["isa"] else None)


def variant_of(letter: str) -> Variant:
    """Return the letter after an architecture's number as what it is."""
    return "a" if letter == "a" else "f" if letter == "f" else ""


def parse_device(text: str) -> int:
    """Read the name of a GPU's architecture, such as ``sm_121``; raises ValueError, also on variants."""
    code = parse_code(text)
    if code.variant or code.isa is not None:
        raise ValueError(f"code is of a variant, a GPU is not: sm_{code.number}")
    return code.number


def usable(codes: Iterable[GpuCode], device: int, newest_ptx: tuple[int, int] | None = None) -> bool:
    """Say whether a GPU can use any of several images of the same code."""
    return any(code.runs_on(device, newest_ptx) for code in codes)


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
