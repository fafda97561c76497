# SPDX-License-Identifier: Apache-2.0
"""One small matrix product per number format: what the compiler makes of each is read off its instructions.

Every function returns `out[rows, columns] = a[rows, depth] @ b[columns, depth]^T` with FP32 sums. A format's values
and their scales are those of `reference.py`. A row of `out` depends on its own row of `a` alone: sums run over
ascending k whatever the count of rows, and rows past the last are neither read nor written. These are probes, not fast
kernels: what a fast kernel would have of each format is the instruction.

Three ways to a format:

- `dense`, `nvfp4`: TileLang's own `T.gemm` and `T.mma_gemm_blockscaled`;
- `warp_product`: PTX of which TileLang 0.1.15 knows nothing, in CUDA source that the kernel brings along;
- `dequantised`: the operands become BF16 first, exactly, which every architecture multiplies.

Fragment layouts are those of the PTX manual's `mma.m16n8k32` (8-bit) and `mma.m16n8k64` (4-bit). Scales are those of
its block scaling with selectors 0: lane `4 g + t` brings the scale of row `g + 8 (t mod 2)` of `a` and of row `g` of
`b`.
"""

from __future__ import annotations

import tilelang.language as T  # noqa: N812

GROUP = 32
"""Values that share a UE8M0 scale."""

BITS = {"e4m3": 8, "e2m1": 4}

_KIND = {
    ("e4m3", "e4m3", True): "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e4m3.f32.ue8m0",
    ("e4m3", "e2m1", True): "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e2m1.f32.ue8m0",
    ("e2m1", "e2m1", True): "kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0",
    ("e4m3", "e2m1", False): "kind::f8f6f4.m16n8k32.row.col.f32.e4m3.e2m1.f32",
}

_SOURCE = r"""
// Four bytes of a row.
__device__ __forceinline__ unsigned int load_word(const void *from) {
  return *reinterpret_cast<const unsigned int *>(from);
}

// Four E2M1 values in a byte each, where an instruction that takes E4M3 too looks for them: bits 2 to 5.
__device__ __forceinline__ unsigned int load_spread(const void *from) {
  unsigned int packed = *reinterpret_cast<const unsigned short *>(from);
  unsigned int low = packed & 0x000fu, second = packed & 0x00f0u, third = packed & 0x0f00u, high = packed & 0xf000u;
  return (low | second << 4 | third << 8 | high << 12) << 2;
}

__device__ __forceinline__ void multiply(float *d, const unsigned int *a, const unsigned int *b,
                                         unsigned int scale_a, unsigned int scale_b) {
  asm volatile("mma.sync.aligned.@KIND@ {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}@SELECT@;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])@SCALES@);
}
"""


def dense(*, columns: int, depth: int, dtype: str, block_depth: int):
    """`a` [rows, depth] and `b` [columns, depth] in `dtype` -> `out` [rows, columns] FP32, by T.gemm.

    Args:
        columns: rows of b, a multiple of 64.
        depth: length of the sums, a multiple of block_depth.
        dtype: of both: "bfloat16", "float16", "float32" (multiplied as TF32) or "float8_e4m3fn".
        block_depth: k per step of the pipeline.
    """
    rows = T.dynamic("rows")

    @T.prim_func
    def dense(
        a: T.Tensor((rows, depth), dtype),
        b: T.Tensor((columns, depth), dtype),
        out: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(columns // 64, T.ceildiv(rows, 64), threads=128) as (bx, by):
            a_tile = T.alloc_shared((64, block_depth), dtype)
            b_tile = T.alloc_shared((64, block_depth), dtype)
            sums = T.alloc_fragment((64, 64), "float32")
            T.clear(sums)
            for step in T.Pipelined(depth // block_depth, num_stages=2):
                T.copy(a[by * 64, step * block_depth], a_tile)
                T.copy(b[bx * 64, step * block_depth], b_tile)
                T.gemm(a_tile, b_tile, sums, transpose_B=True)
            T.copy(sums, out[by * 64, bx * 64])

    return dense


def nvfp4(*, columns: int, depth: int):
    """NVFP4 -> `out` [rows, columns] FP32, by T.mma_gemm_blockscaled.

    `a` [rows, depth] and `b` [columns, depth] E2M1; `a_scales` [rows, depth / 64] and `b_scales` [columns, depth / 64]:
    uint32 words of the E4M3 scales of four neighbouring groups of 16, the first in the lowest byte.

    TileLang 0.1.15 asks for a macro that the compiler defines for sm_120a alone: without
    `-DCUTLASS_ARCH_MMA_SM120A_ENABLED` the kernel compiles for sm_121a to a trap.

    Args:
        columns: rows of b, a multiple of 64.
        depth: length of the sums, a multiple of 128.
    """
    rows = T.dynamic("rows")

    @T.prim_func
    def nvfp4(
        a: T.Tensor((rows, depth), "float4_e2m1fn"),
        b: T.Tensor((columns, depth), "float4_e2m1fn"),
        a_scales: T.Tensor((rows, depth // 64), "uint32"),
        b_scales: T.Tensor((columns, depth // 64), "uint32"),
        out: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(columns // 64, T.ceildiv(rows, 64), threads=128) as (bx, by):
            a_tile = T.alloc_shared((64, 128), "float4_e2m1fn")
            b_tile = T.alloc_shared((64, 128), "float4_e2m1fn")
            a_scale = T.alloc_shared((64, 2), "uint32")
            b_scale = T.alloc_shared((64, 2), "uint32")
            sums = T.alloc_fragment((64, 64), "float32")
            T.clear(sums)
            for step in T.serial(depth // 128):
                T.copy(a[by * 64, step * 128], a_tile)
                T.copy(b[bx * 64, step * 128], b_tile)
                T.copy(a_scales[by * 64, step * 2], a_scale)
                T.copy(b_scales[bx * 64, step * 2], b_scale)
                T.mma_gemm_blockscaled(
                    a_tile,
                    b_tile,
                    sums,
                    a_scale,
                    b_scale,
                    transpose_B=True,
                    k_start=step * 128,
                    sf_a_granularity_k=16,
                    sf_b_granularity_k=16,
                    sf_layout="rowmajor",
                )
            T.copy(sums, out[by * 64, bx * 64])

    return nvfp4


def warp_product(*, columns: int, depth: int, a_format: str, b_format: str, scaled: bool):
    """Values of 8 or 4 bits, with UE8M0 scales or none -> `out` [rows, columns] FP32, by PTX.

    `a` [rows, bytes of depth values] and `b` [columns, bytes of depth values] as bytes; two E2M1 values stand in a
    byte, the first in its low half. `a_scales` [rows, depth / 32] and `b_scales` [columns, depth / 32] UE8M0 as bytes,
    not read where `scaled` is false. A block of four warps makes 16 rows and 32 columns, a warp 8 of these, straight
    from memory.

    Args:
        columns: rows of b, a multiple of 32.
        depth: length of the sums, a multiple of 64.
        a_format: of a: "e4m3" or "e2m1".
        b_format: of b: "e4m3" or "e2m1".
        scaled: whether the scales take part.

    Raises:
        KeyError: the instruction set has no such product.
    """
    kind = _KIND[a_format, b_format, scaled]
    source = _SOURCE.replace("@KIND@", kind)
    source = source.replace("@SELECT@", ", {%10}, {0, 0}, {%11}, {0, 0}" if scaled else "")
    source = source.replace("@SCALES@", ', "r"(scale_a), "r"(scale_b)' if scaled else "")
    rows = T.dynamic("rows")
    k_step = 64 if a_format == "e2m1" else 32
    a_step, b_step = k_step * BITS[a_format] // 8, k_step * BITS[b_format] // 8
    spread = BITS[a_format] != BITS[b_format]
    groups = k_step // GROUP

    @T.prim_func
    def warp_product(
        a: T.Tensor((rows, depth // k_step * a_step), "uint8"),
        b: T.Tensor((columns, depth // k_step * b_step), "uint8"),
        a_scales: T.Tensor((rows, depth // GROUP), "uint8"),
        b_scales: T.Tensor((columns, depth // GROUP), "uint8"),
        out: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(columns // 32, T.ceildiv(rows, 16), threads=128) as (bx, by):
            T.import_source(source)
            thread = T.get_thread_binding()
            g = thread % 32 // 4
            t = thread % 4
            column = bx * 32 + thread // 32 * 8
            a_words = T.alloc_local((4,), "uint32")
            b_words = T.alloc_local((2,), "uint32")
            scales = T.alloc_local((2,), "uint32")
            sums = T.alloc_local((4,), "float32")
            for i in T.unroll(4):
                sums[i] = 0.0
            for step in T.serial(depth // k_step):
                for i in T.unroll(4):
                    a_words[i] = 0
                    if by * 16 + g + i % 2 * 8 < rows:
                        a_words[i] = T.call_extern(
                            "uint32",
                            "load_word",
                            T.address_of(a[by * 16 + g + i % 2 * 8, step * a_step + i // 2 * 16 + 4 * t]),
                        )
                for i in T.unroll(2):
                    if spread:
                        b_words[i] = T.call_extern(
                            "uint32", "load_spread", T.address_of(b[column + g, step * b_step + i * 8 + 2 * t])
                        )
                    else:
                        b_words[i] = T.call_extern(
                            "uint32", "load_word", T.address_of(b[column + g, step * b_step + i * 16 + 4 * t])
                        )
                scales[0] = 0
                scales[1] = 0
                if scaled:
                    for i in T.unroll(groups):
                        if by * 16 + g + t % 2 * 8 < rows:
                            scales[0] = scales[0] | (
                                T.cast(a_scales[by * 16 + g + t % 2 * 8, step * groups + i], "uint32") << (8 * i)
                            )
                        scales[1] = scales[1] | (T.cast(b_scales[column + g, step * groups + i], "uint32") << (8 * i))
                T.call_extern(
                    "handle",
                    "multiply",
                    T.address_of(sums[0]),
                    T.address_of(a_words[0]),
                    T.address_of(b_words[0]),
                    scales[0],
                    scales[1],
                )
            for i in T.unroll(4):
                if by * 16 + g + i // 2 * 8 < rows:
                    out[by * 16 + g + i // 2 * 8, column + 2 * t + i % 2] = sums[i]

    return warp_product


def dequantised(*, columns: int, depth: int, a_format: str, b_format: str):
    """Values of 8 or 4 bits with UE8M0 scales -> `out` [rows, columns] FP32, by BF16 tiles and T.gemm.

    Operands as in `warp_product`. Each value times its scale is made in FP32 and rounded to BF16: exact where it is a
    normal BF16: for every scale from 2^-117 up with E4M3, from 2^-125 up with E2M1, up to where the product overflows.

    Args:
        columns: rows of b, a multiple of 64.
        depth: length of the sums, a multiple of 64.
        a_format: of a: "e4m3" or "e2m1".
        b_format: of b: "e4m3" or "e2m1".
    """
    rows = T.dynamic("rows")
    a_per_byte, b_per_byte = 8 // BITS[a_format], 8 // BITS[b_format]

    @T.prim_func
    def dequantised(
        a: T.Tensor((rows, depth // a_per_byte), "uint8"),
        b: T.Tensor((columns, depth // b_per_byte), "uint8"),
        a_scales: T.Tensor((rows, depth // GROUP), "uint8"),
        b_scales: T.Tensor((columns, depth // GROUP), "uint8"),
        out: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(columns // 64, T.ceildiv(rows, 64), threads=128) as (bx, by):
            a_tile = T.alloc_shared((64, 64), "bfloat16")
            b_tile = T.alloc_shared((64, 64), "bfloat16")
            sums = T.alloc_fragment((64, 64), "float32")
            T.clear(sums)
            for step in T.serial(depth // 64):
                for i, k in T.Parallel(64, 64):
                    if by * 64 + i < rows:
                        a_tile[i, k] = T.cast(
                            _value(a[by * 64 + i, (step * 64 + k) // a_per_byte], k, a_format)
                            * _power(a_scales[by * 64 + i, (step * 64 + k) // GROUP]),
                            "bfloat16",
                        )
                    else:
                        a_tile[i, k] = T.cast(0, "bfloat16")
                for i, k in T.Parallel(64, 64):
                    b_tile[i, k] = T.cast(
                        _value(b[bx * 64 + i, (step * 64 + k) // b_per_byte], k, b_format)
                        * _power(b_scales[bx * 64 + i, (step * 64 + k) // GROUP]),
                        "bfloat16",
                    )
                T.gemm(a_tile, b_tile, sums, transpose_B=True)
            T.copy(sums, out[by * 64, bx * 64])

    return dequantised


def _value(byte, k, number_format: str):
    """Return as FP32 the E4M3 value that is `byte`, or its E2M1 value number `k` modulo 2."""
    if number_format == "e4m3":
        return T.cast(T.reinterpret(byte, "float8_e4m3fn"), "float32")
    nibble = (T.cast(byte, "uint32") >> (4 * (k % 2))) & 15
    # As the lowest exponent bits of an FP32 it is 2^-126 of its value, and subnormal where the value is 0.5.
    return T.reinterpret(((nibble & 8) << 28) | ((nibble & 7) << 22), "float32") * T.float32(2.0**126)


def _power(code):
    """Return as FP32 the UE8M0 scale 2^(code - 127); code 255 is NaN."""
    wide = T.cast(code, "uint32")
    bits = T.if_then_else(wide == 0, T.uint32(0x00400000), wide << 23)
    return T.reinterpret(T.if_then_else(wide == 255, T.uint32(0x7FFFFFFF), bits), "float32")
