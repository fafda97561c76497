# SPDX-License-Identifier: Apache-2.0
"""What a kernel says about itself so that it can be checked and timed on a GPU.

`bench.py` of a kernel defines `cases() -> Sequence[Case]`. The one who runs them owns every buffer: outputs are
allocated between guards, filled with poison and checked for elements never written; inputs and weights are copied until
the copies together exceed the L2 cache, and taken in turn. A case only says what to compute and what it should cost.

Words: `state` is what stays from call to call (weights, tables), `inputs` are the rows of one call. Both map names to
tensors on `device`; the first dimension of every input and every output is the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One output of a call: `shape` with the rows first, and a torch dtype."""

    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Time a case at `rows` rows; `target_us` is what it must reach in microseconds, one launch included."""

    rows: int
    target_us: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a check found: `problems` in words, empty when all is well, and `figures` worth keeping (errors, counts)."""

    problems: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)


class Peer:
    """Another program for the same computation, timed in the same run (cuBLAS, another kernel). Never checked."""

    name: str = ""

    def unavailable(self) -> str | None:
        """Why this peer cannot run here (a package that is absent), or None."""
        return None

    def state(self, state: Tensors) -> Tensors:
        """The weights in the peer's own form, made from the case's."""
        return state

    def outputs(self, state: Tensors, rows: int) -> Mapping[str, Output]:
        """The peer's outputs; a peer that allocates its own gives none."""
        raise NotImplementedError

    def run(self, state: Tensors, inputs: Tensors, outputs: Tensors) -> None:
        """Launch on the current stream; it is captured in a graph, so it must not wait for the device."""
        raise NotImplementedError


class Case:
    """One program of a kernel at one shape."""

    program: str = ""  # of kernel.toml
    shape: str = ""  # of kernel.toml
    rows: tuple[int, ...] = ()  # row counts at which results are checked: both ends of every tile
    timings: tuple[Timing, ...] = ()
    peers: tuple[Peer, ...] = ()
    kinds: tuple[str, ...] = ("random",)  # of input, see `inputs`; "random" comes first
    small_rows: tuple[int, ...] = (1, 3)  # row counts under compute-sanitizer, which is some hundred times slower

    @property
    def name(self) -> str:
        """The case in the report."""
        return f"{self.program}/{self.shape}"

    def small(self) -> Case:
        """The case to run under compute-sanitizer: itself, or the same program over less data where it can."""
        return self

    def state(self, device: torch.device, generator: torch.Generator) -> Tensors:
        """Weights from `generator`, which lives on `device`. Made once for a case."""
        return {}

    def inputs(self, state: Tensors, rows: int, kind: str, generator: torch.Generator) -> Tensors:
        """Fresh rows of a kind.

        "random" is what the model feeds it; others are the case's own ("extreme": NaN, infinities, subnormals, ties,
        the largest numbers, mixed in single rows).
        """
        raise NotImplementedError

    def outputs(self, state: Tensors, rows: int) -> Mapping[str, Output]:
        """What a call writes."""
        raise NotImplementedError

    def run(self, state: Tensors, inputs: Tensors, outputs: Tensors) -> None:
        """Launch on the current stream through `ops.py`: no allocation, no wait (it is captured in a graph)."""
        raise NotImplementedError

    def reference(self, state: Tensors, inputs: Tensors) -> Tensors:
        """The outputs that `reference.py` gives, under the same names, on any device."""
        raise NotImplementedError

    def compare(self, state: Tensors, inputs: Tensors, got: Tensors, wanted: Tensors) -> Comparison:
        """Judge outputs against the reference's. Default: every bit, those of NaN too."""
        return compare_bits(got, wanted)

    def moved_bytes(self, state: Tensors, rows: int) -> int:
        """The fewest bytes a call moves through device memory: each input read once, each output written once."""
        raise NotImplementedError


def compare_bits(got: Tensors, wanted: Tensors) -> Comparison:
    """Outputs are equal when their bytes are; tells the first place that differs and how many do."""
    import torch

    problems = []
    for name in sorted({*got, *wanted}):
        if name not in got or name not in wanted:
            problems.append(f"{name}: given by {'the kernel' if name in got else 'the reference'} alone")
            continue
        left, right = got[name], wanted[name].to(got[name].device)
        if left.shape != right.shape or left.dtype != right.dtype:
            problems.append(f"{name}: {left.dtype} {tuple(left.shape)}, wanted {right.dtype} {tuple(right.shape)}")
            continue
        a, b = (t.contiguous().reshape(-1).view(torch.uint8).reshape(-1, t.element_size()) for t in (left, right))
        differs = (a != b).any(dim=1)
        count = int(differs.sum())
        if count:
            first = int(differs.nonzero()[0])
            place = tuple(int(i) for i in torch.unravel_index(torch.tensor(first), left.shape))
            values = " wanted ".join(bytes(t[first].flip(0).tolist()).hex() for t in (a, b))
            said = values.replace("wanted ", "wanted 0x")
            problems.append(f"{name}: {count} of {left.numel()} differ, first at {place}: 0x{said}")
    return Comparison(problems=tuple(problems))


def cases_of(module: object) -> Sequence[Case]:
    """The cases that a kernel's `bench` module declares."""
    cases = module.cases()  # type: ignore[attr-defined]
    names = [case.name for case in cases]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"cases of one name: {', '.join(doubled)}")
    return tuple(cases)
