# SPDX-License-Identifier: Apache-2.0
"""Checks and timings of act_quant on a GPU: widths that the model has, every bit against the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from ds41_kernels.act_quant import ops, reference
from ds41_kernels.protocol import Case, Output, Peer, Timing

GROUP = reference.GROUP
TILE_ENDS = (400, 401)  # rows of 5120 columns: 64000 groups and the first count beyond
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
INTEGERS = {torch.bfloat16: torch.int16, torch.float32: torch.int32}
OTHER_WIDTHS = (512, 576, 768, 1280, 2048, 3072, 4096)
Tensors = Mapping[str, torch.Tensor]


class Cast(Case):
    """What both programs have in common: `rows` rows of `columns` values."""

    kinds = ("random", "extreme")
    small_rows = (1, 3)

    def __init__(self, *, shape: str, columns: int, rows: tuple[int, ...], timings: tuple[Timing, ...] = ()) -> None:
        self.shape = shape
        self.columns = columns
        self.rows = rows
        self.timings = timings
        self.dtype = DTYPES[shape]

    @property
    def name(self) -> str:
        """The case in the report: one kernel serves several widths."""
        return f"{self.program}/{self.shape}/{self.columns}"

    def small(self) -> Case:
        """The same program at the width of two groups."""
        return type(self)(shape=self.shape, columns=2 * GROUP, rows=self.small_rows)

    def moved_bytes(self, state: Tensors, rows: int) -> int:
        """Values in one format read and in the other written, and a byte per group."""
        width = int(self.dtype.itemsize) + 1
        return rows * self.columns * width + rows * self.columns // GROUP


class Quantise(Cast):
    """BF16 or FP32 to E4M3 and UE8M0."""

    program = "quantise"

    def inputs(self, state: Tensors, rows: int, kind: str, generator: torch.Generator) -> Tensors:
        """Normally distributed values, or the hardest ones."""
        shape = (rows * self.columns // GROUP, GROUP)
        x = extreme(shape, self.dtype, generator) if kind == "extreme" else normal(shape, generator).to(self.dtype)
        return {"x": x.view(rows, self.columns)}

    def outputs(self, state: Tensors, rows: int) -> Mapping[str, Output]:
        """Values and scales."""
        return {
            "values": Output(shape=(rows, self.columns), dtype=torch.float8_e4m3fn),
            "scales": Output(shape=(rows, self.columns // GROUP), dtype=torch.uint8),
        }

    def run(self, state: Tensors, inputs: Tensors, outputs: Tensors) -> None:
        """Launch the kernel."""
        ops.quantise(inputs["x"], values=outputs["values"], scales=outputs["scales"])

    def reference(self, state: Tensors, inputs: Tensors) -> Tensors:
        """On the CPU: the reference is stated for its arithmetic."""
        values, scales = reference.quantise(inputs["x"].cpu())
        return {"values": values, "scales": scales}


class Dequantise(Cast):
    """E4M3 and UE8M0 to BF16 or FP32."""

    program = "dequantise"

    def inputs(self, state: Tensors, rows: int, kind: str, generator: torch.Generator) -> Tensors:
        """What quantising normally distributed values gives, or any codes at all."""
        if kind == "extreme":
            values = integers((rows, self.columns), 0, 256, generator).to(torch.uint8).view(torch.float8_e4m3fn)
            scales = integers((rows, self.columns // GROUP), 0, 256, generator).to(torch.uint8)
            return {"values": values, "scales": scales}
        values, scales = reference.quantise(normal((rows, self.columns), generator))
        return {"values": values, "scales": scales}

    def outputs(self, state: Tensors, rows: int) -> Mapping[str, Output]:
        """The rows."""
        return {"x": Output(shape=(rows, self.columns), dtype=self.dtype)}

    def run(self, state: Tensors, inputs: Tensors, outputs: Tensors) -> None:
        """Launch the kernel."""
        ops.dequantise(inputs["values"], inputs["scales"], x=outputs["x"])

    def reference(self, state: Tensors, inputs: Tensors) -> Tensors:
        """On the CPU: the reference is stated for its arithmetic."""
        return {"x": reference.dequantise(inputs["values"].cpu(), inputs["scales"].cpu(), dtype=self.dtype)}


def normal(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """FP32 values of the size that activations have."""
    return torch.randn(shape, generator=generator, device=generator.device)


def integers(shape: tuple[int, ...], low: int, high: int, generator: torch.Generator) -> torch.Tensor:
    """int64 values from low to high - 1."""
    return torch.randint(low, high, shape, generator=generator, device=generator.device)


def extreme(shape: tuple[int, int], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Groups of six kinds: any bits; exponents apart; NaN and infinity; ties; amax near 448 x 2^k; zeros."""
    groups = shape[0]
    kind = integers((groups, 1), 0, 6, generator)
    power = integers((groups, 1), -60, 100, generator).int()
    base = normal(shape, generator)
    chance = torch.rand(shape, generator=generator, device=generator.device)
    result = anything(shape, dtype, generator)
    spread = torch.ldexp(torch.ldexp(base, integers(shape, -20, 21, generator).int()), power).to(dtype)
    result = torch.where(kind == 1, spread, result)
    mixed = torch.where(chance < 0.05, torch.nan, base)
    mixed = torch.where(chance > 0.98, torch.copysign(torch.full_like(base, torch.inf), base), mixed)
    result = torch.where(kind == 2, mixed.to(dtype), result)
    # Sixteenths of a power of two lie on and between E4M3 values, whose step is an eighth.
    ties = torch.ldexp(integers(shape, -255, 256, generator).float() / 16, integers(shape, -16, 5, generator).int())
    ties[:, 0] = reference.LARGEST
    result = torch.where(kind == 3, torch.ldexp(ties, power).to(dtype), result)
    bits = torch.ldexp(torch.full((groups, 1), reference.LARGEST, device=base.device), power).to(dtype)
    edge = (bits.view(INTEGERS[dtype]) + integers((groups, 1), -1, 2, generator).to(INTEGERS[dtype])).view(dtype)
    below = (edge.float() * (chance - 0.5)).to(dtype)
    below[:, -1:] = edge
    result = torch.where(kind == 4, below, result)
    zeros = torch.where(chance < 0.5, 0.0, -0.0).to(dtype)
    return torch.where(kind == 5, zeros, result)


def anything(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Every bit pattern of a format, each as likely: NaN of all payloads, infinities, subnormals."""
    form = INTEGERS[dtype]
    limits = torch.iinfo(form)
    return integers(shape, limits.min, limits.max + 1, generator).to(form).view(dtype)


class TileKernels(Peer):
    """The cast that the package tile-kernels has, with scales of powers of two; it allocates its outputs."""

    name = "tile-kernels"

    def unavailable(self) -> str | None:
        """Needs Python 3.12 and the package."""
        try:
            import tile_kernels  # noqa: F401
        except ImportError as error:
            return str(error)
        return None

    def outputs(self, state: Tensors, rows: int) -> Mapping[str, Output]:
        """It gives its own."""
        return {}

    def run(self, state: Tensors, inputs: Tensors, outputs: Tensors) -> None:
        """Quantise x."""
        from tile_kernels.quant.per_token_cast_kernel import per_token_cast

        per_token_cast(inputs["x"], "e4m3", GROUP, round_sf=True)


def cases() -> Sequence[Case]:
    """The hidden width at all row counts, and the other widths of the model at some."""
    result: list[Case] = []
    for program in (Quantise, Dequantise):
        for shape in DTYPES:
            target = {6: 3.0, 4096: 18.0} if program is Quantise and shape == "bf16" else {}
            timings = tuple(
                Timing(rows=rows, target_us=target.get(rows)) for rows in (1, 6, 48, *TILE_ENDS, 1024, 4096)
            )
            hidden = program(shape=shape, columns=5120, rows=(1, 2, 6, 7, 48, *TILE_ENDS, 513, 4096), timings=timings)
            if program is Quantise:
                hidden.peers = (TileKernels(),)
            result.append(hidden)
        result += [program(shape="bf16", columns=columns, rows=(1, 6, 65)) for columns in OTHER_WIDTHS]
    return tuple(result)
