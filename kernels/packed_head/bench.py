# SPDX-License-Identifier: Apache-2.0
"""Checks and timings of packed_head on a GPU: the head at three and four ranks, and a small one of awkward weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from ds41_kernels.packed_head import ops, reference
from ds41_kernels.packed_head.pack import PackedHead, pack, unpack
from ds41_kernels.protocol import Case, Comparison, Output, Peer, Timing

COLUMNS = 5120
BASE = 112  # the window 112 to 126 of the model's head
SPREAD = 0.15  # of the weights: with it the window leaves about 0.9 exceptions a row, as in the model's head
Tensors = Mapping[str, torch.Tensor]


class Head(Case):
    """Logits for a vocabulary of `vocab` rows."""

    program = "head"
    kinds = ("random", "extreme")
    small_rows = (3,)

    def __init__(
        self,
        *,
        label: str,
        vocab: int,
        rows: tuple[int, ...],
        timings: tuple[Timing, ...] = (),
        awkward: bool = False,
        peers: tuple[Peer, ...] = (),
    ) -> None:
        self.label = label
        self.vocab = vocab
        self.rows = rows
        self.timings = timings
        self.awkward = awkward
        self.peers = peers
        self.shape = ops.shape_of(vocab, COLUMNS)
        self.judged: tuple[torch.Tensor | None, torch.Tensor] = (None, torch.empty(0))  # x, and the bound of its logits

    @property
    def name(self) -> str:
        """The case in the report: one kernel serves several vocabularies."""
        return f"head/{self.label}"

    def small(self) -> Case:
        """One thread block, not all of whose warps have rows of their own."""
        return Head(label="small", vocab=200, rows=self.small_rows, awkward=True)

    def state(self, device: torch.device, generator: torch.Generator) -> Tensors:
        """Packed weights."""
        weight = torch.empty(self.vocab, COLUMNS, dtype=torch.bfloat16, device=device)
        for slab in weight.split(4096):
            slab.copy_(torch.randn(slab.shape, generator=generator, device=device) * SPREAD)
        if self.awkward:
            make_awkward(weight, generator)
        packed = pack(weight, BASE)
        return {name: getattr(packed, name) for name in ("blocks", "starts", "leading", "entries")}

    def inputs(self, state: Tensors, rows: int, kind: str, generator: torch.Generator) -> Tensors:
        """Normally distributed rows; "extreme" scales each by a power of two and puts NaN and infinities into some."""
        device = generator.device
        x = torch.randn(rows, COLUMNS, generator=generator, device=device)
        if kind == "extreme":
            power = torch.randint(-140, 100, (rows, 1), generator=generator, device=device)
            x = torch.ldexp(torch.ldexp(x, power // 2), power - power // 2)
            x = torch.where(torch.rand(x.shape, generator=generator, device=device) < 0.01, -0.0, x)
            for row in range(2, rows, 5):
                place = int(torch.randint(0, COLUMNS, (), generator=generator, device=device))
                x[row, place] = (torch.nan, torch.inf, -torch.inf)[row % 3]
        return {"x": x.to(torch.bfloat16)}

    def outputs(self, state: Tensors, rows: int) -> Mapping[str, Output]:
        """The logits."""
        return {"logits": Output(shape=(rows, self.vocab), dtype=torch.float32)}

    def run(self, state: Tensors, inputs: Tensors, outputs: Tensors) -> None:
        """Launch the kernel."""
        ops.head(inputs["x"], self.packed(state), logits=outputs["logits"])

    def reference(self, state: Tensors, inputs: Tensors) -> Tensors:
        """Where the weights are: a product of the whole head is too much for a CPU."""
        logits, bound = reference.with_bound(inputs["x"], self.packed(state))
        self.judged = (inputs["x"], bound)
        return {"logits": logits}

    def compare(self, state: Tensors, inputs: Tensors, got: Tensors, wanted: Tensors) -> Comparison:
        """Within the reference's bound; NaN where it has NaN, not finite where it is not."""
        logits, expected = got["logits"], wanted["logits"].to(got["logits"].device)
        judged, bound = self.judged
        if judged is not inputs["x"]:
            bound = reference.error_bound(inputs["x"], self.packed(state))
        finite = expected.isfinite()
        far = (logits.double() - expected.double()).abs()
        share = torch.where(finite, far / bound, 0.0)
        problems = []
        if bool((finite & ~(share <= 1)).any()):
            row, column = (finite & ~(share <= 1)).nonzero()[0].tolist()
            problems.append(
                f"logits: beyond the bound, first at ({row}, {column}): {float(logits[row, column])!r}, "
                f"wanted {float(expected[row, column])!r} within {float(bound[row, column]):.3g}"
            )
        if bool((expected.isnan() & ~logits.isnan()).any()):
            problems.append("logits: a NaN of the reference is none")
        if bool((~finite & logits.isfinite()).any()):
            problems.append("logits: finite where the reference is not")
        plain = finite.all(dim=1)
        error = (logits[plain].double() - expected[plain].double()).norm() / expected[plain].double().norm()
        figures = {"largest-share-of-the-bound": float(share.nan_to_num(torch.inf).max())}
        if bool(plain.any()):
            figures["relative-difference"] = float(error)
        return Comparison(problems=tuple(problems), figures=figures)

    def moved_bytes(self, state: Tensors, rows: int) -> int:
        """The packed weights, x and the logits."""
        return self.packed(state).nbytes + rows * (COLUMNS * 2 + self.vocab * 4)

    def packed(self, state: Tensors) -> PackedHead:
        """The weights as ops.py takes them."""
        return PackedHead(vocab=self.vocab, columns=COLUMNS, base=BASE, **state)


class CuBlas(Peer):
    """The same product from BF16 weights, BF16 out: what the packed form replaces."""

    name = "cuBLAS BF16"

    def state(self, state: Tensors) -> Tensors:
        """Unpacked weights."""
        vocab = self.vocab
        return {"weight": unpack(PackedHead(vocab=vocab, columns=COLUMNS, base=BASE, **state))}

    def __init__(self, vocab: int) -> None:
        self.vocab = vocab

    def outputs(self, state: Tensors, rows: int) -> Mapping[str, Output]:
        """The logits, rounded to BF16."""
        return {"logits": Output(shape=(rows, self.vocab), dtype=torch.bfloat16)}

    def run(self, state: Tensors, inputs: Tensors, outputs: Tensors) -> None:
        """One matrix product."""
        torch.mm(inputs["x"], state["weight"].t(), out=outputs["logits"])


def make_awkward(weight: torch.Tensor, generator: torch.Generator) -> None:
    """Rows of zeros of either sign, of special values, and with more exceptions than a warp has lanes."""
    infinity = torch.inf
    weight[3] = 0.0
    weight[4] = -0.0
    weight[5, 17] = torch.nan
    weight[6, [0, -1]] = torch.tensor([infinity, -infinity], dtype=weight.dtype, device=weight.device)
    weight[7, ::7] = 2.0**-130
    weight[8, ::60] = 3.0
    weight[-1, ::3] = 1e-20
    weight[-2, -1] = infinity
    exponents = torch.randint(0, 150, (weight.shape[1],), generator=generator, device=weight.device)
    weight[9] = torch.ldexp(weight[9].double(), exponents - 126).to(weight.dtype)


def cases() -> Sequence[Case]:
    """Four ranks, three ranks, and a vocabulary that ends inside a group."""
    ends = (1, 2, 6, 8, 9, 16, 17, 32, 33, 48, 49, 64, 65, 96, 97)
    timed = (1, 6, 16, 32, 48, 64, 96)
    four = tuple(Timing(rows=rows, target_us=66.0 if rows <= 48 else None) for rows in timed)
    three = tuple(Timing(rows=rows) for rows in (1, 6, 48, 96))
    return (
        Head(
            label="tp4-32320",
            vocab=32320,
            rows=(1, 8, 16, 32, 33, 48, 64, 96, 97),
            timings=four,
            peers=(CuBlas(32320),),
        ),
        Head(label="tp3-43094", vocab=43094, rows=(6, 9, 17, 48, 49, 96), timings=three, peers=(CuBlas(43094),)),
        Head(label="tp3-43092", vocab=43092, rows=(6,)),
        Head(label="awkward-3003", vocab=3003, rows=ends, awkward=True),
    )
