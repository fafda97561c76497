# SPDX-License-Identifier: Apache-2.0
"""Cast rows to E4M3 with one UE8M0 scale per 32 values, and back: one pass, whole groups in registers.

A group is 32 values that share a scale. Rows lie one after the other and their width is a multiple of 32, so a matrix
is a list of groups whatever its width, and a kernel serves every width. Neither kernel knows of rows: a group's bits
depend on that group alone.

Neighbouring lanes of a warp hold a group, each 16 bytes of its BF16 or FP32 side: 4 lanes of 8 BF16 values, 8 lanes of
4 FP32 values. (With 32 bytes each store would cover half sectors: on an H200 FP32 was dequantised in 38 us, not 28.) A
block of `threads` threads takes `pieces` runs of 16 bytes per thread, and loads all runs before it uses the first. The
numerics are those of `reference.py`, bit for bit.
"""

from __future__ import annotations

import tilelang.language as T  # noqa: N812

GROUP = 32
SMALLEST_AMAX = 1e-4  # as FP32, 0x38D1B717
WIDTHS = {"bfloat16": 2, "float32": 4}  # bytes of a value
ACCESS = 16  # bytes a thread reads or writes at once on that side


def quantise(*, dtype: str, threads: int, pieces: int) -> object:
    """`x` [groups, 32] in `dtype` -> `values` [groups, 32] E4M3 and `scales` [groups] UE8M0 (as bytes).

    Args:
        dtype: of x: "bfloat16" or "float32".
        threads: per block, a multiple of 32.
        pieces: runs per block.
    """
    groups = T.dynamic("groups")
    vector = ACCESS // WIDTHS[dtype]
    lanes = GROUP // vector
    step = threads // lanes
    steps = lanes.bit_length() - 1

    @T.prim_func
    def quantise(
        x: T.Tensor((groups, GROUP), dtype),
        values: T.Tensor((groups, GROUP), "float8_e4m3fn"),
        scales: T.Tensor((groups,), "uint8"),
    ):
        with T.Kernel(T.ceildiv(groups, step * pieces), threads=threads) as block:
            thread = T.get_thread_binding()
            raw = T.alloc_local((pieces, vector), dtype)
            words = T.view(raw, (pieces, ACCESS // 4), "uint32")
            wide = T.alloc_local((pieces, vector), "float32")
            amax = T.alloc_local((pieces,), "float32")
            code = T.alloc_local((pieces,), "uint32")
            factor = T.alloc_var("float32")
            out = T.alloc_local((pieces, vector), "float8_e4m3fn")
            first = block * (step * pieces) + thread // lanes
            column = thread % lanes * vector
            for p in T.unroll(pieces):
                if first + p * step < groups:
                    for v in T.vectorized(vector):
                        raw[p, v] = x[first + p * step, column + v]
                else:
                    for v in T.vectorized(vector):
                        raw[p, v] = T.cast(0, dtype)
            for p in T.unroll(pieces):
                if dtype == "bfloat16":
                    # A BF16 is the upper half of the FP32 of the same value.
                    for w in T.unroll(ACCESS // 4):
                        wide[p, 2 * w] = T.reinterpret(words[p, w] << 16, "float32")
                        wide[p, 2 * w + 1] = T.reinterpret(words[p, w] & T.uint32(0xFFFF0000), "float32")
                else:
                    for v in T.vectorized(vector):
                        wide[p, v] = raw[p, v]
                # A NaN is no maximum: the instruction returns the operand that is a number.
                amax[p] = T.float32(SMALLEST_AMAX)
                for v in T.unroll(vector):
                    amax[p] = T.max(amax[p], T.abs(wide[p, v]))
            for s in T.unroll(steps):
                for p in T.unroll(pieces):
                    amax[p] = T.max(amax[p], T.shfl_xor(amax[p], 1 << s))
            for p in T.unroll(pieces):
                # 448 is 1.75 x 2^8: adding 0x1FFFFF carries into the exponent exactly if the fraction exceeds 0.75.
                code[p] = ((T.reinterpret(amax[p], "uint32") + T.uint32(0x1FFFFF)) >> 23) - 8
                factor = T.reinterpret((254 - code[p]) << 23, "float32")
                for v in T.vectorized(vector):
                    out[p, v] = T.cast(wide[p, v] * factor, "float8_e4m3fn")
            for p in T.unroll(pieces):
                if first + p * step < groups:
                    for v in T.vectorized(vector):
                        values[first + p * step, column + v] = out[p, v]
                    if thread % lanes == 0:
                        scales[first + p * step] = T.cast(code[p], "uint8")

    return quantise


def dequantise(*, dtype: str, threads: int, pieces: int) -> object:
    """`values` [groups, 32] E4M3 and `scales` [groups] UE8M0 (as bytes) -> `x` [groups, 32] in `dtype`.

    Args:
        dtype: of x: "bfloat16" or "float32".
        threads: per block, a multiple of 32.
        pieces: runs per block.
    """
    groups = T.dynamic("groups")
    vector = ACCESS // WIDTHS[dtype]
    lanes = GROUP // vector
    step = threads // lanes

    @T.prim_func
    def dequantise(
        values: T.Tensor((groups, GROUP), "float8_e4m3fn"),
        scales: T.Tensor((groups,), "uint8"),
        x: T.Tensor((groups, GROUP), dtype),
    ):
        with T.Kernel(T.ceildiv(groups, step * pieces), threads=threads) as block:
            thread = T.get_thread_binding()
            raw = T.alloc_local((pieces, vector), "float8_e4m3fn")
            code = T.alloc_local((pieces,), "uint32")
            bits = T.alloc_var("uint32")
            factor = T.alloc_var("float32")
            wide = T.alloc_local((vector,), "float32")
            out = T.alloc_local((vector,), dtype)
            first = block * (step * pieces) + thread // lanes
            column = thread % lanes * vector
            for p in T.unroll(pieces):
                if first + p * step < groups:
                    for v in T.vectorized(vector):
                        raw[p, v] = values[first + p * step, column + v]
                    code[p] = T.cast(scales[first + p * step], "uint32")
            for p in T.unroll(pieces):
                if first + p * step < groups:
                    bits = code[p] << 23
                    if code[p] == 0:
                        bits = T.uint32(0x00400000)  # 2^-127 is subnormal
                    if code[p] == 255:
                        bits = T.uint32(0x7FFFFFFF)
                    factor = T.reinterpret(bits, "float32")
                    for v in T.vectorized(vector):
                        wide[v] = T.cast(raw[p, v], "float32")
                    for v in T.vectorized(vector):
                        out[v] = T.cast(wide[v] * factor, dtype)
                    for v in T.vectorized(vector):
                        x[first + p * step, column + v] = out[v]

    return dequantise
