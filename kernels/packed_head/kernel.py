# SPDX-License-Identifier: Apache-2.0
"""Logits of 1 to 96 rows from packed BF16 weights: every weight goes from memory to a tensor core through registers.

A warp owns one group of 16 vocabulary rows and streams its blocks over all columns, a few blocks ahead, with 16-byte
loads past L1. A block's order in memory is the order of the tensor core's fragments, so shared memory holds activations
only: a ring of column chunks, each read by all warps of the thread block. One more warp fills the ring with
``cp.async``, and two add up the exceptions while their columns of x are there: the others do nothing but weights.

``reference.py`` states the numerics, ``pack.py`` the storage. The sum over columns of one output is one chain of matrix
instructions in one order, of one kind for an architecture: a row's bits depend on neither the row count, the tile nor
its place. Hopper takes ``wgmma`` with the activations in shared memory, GB10 ``mma.sync`` with them in registers.
"""

import tilelang.language as T  # noqa: N812

HELPERS = r"""
// A lane's 48 bytes of a block: signs and mantissas of rows g and g + 8, codes of both. Read once, so past L1.
// Where `wanted` is 0 nothing is read and `to` keeps its value.
static __device__ __forceinline__ void packed_head_load(unsigned *to, const void *weights, int piece, int wanted) {
  const void *from = static_cast<const uint4 *>(weights) + piece;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.s32 p, %13, 0;\n"
      "@p ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%12];\n"
      "@p ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%4, %5, %6, %7}, [%12+512];\n"
      "@p ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%8, %9, %10, %11}, [%12+1024];\n"
      "}\n"
      : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3]), "+r"(to[4]), "+r"(to[5]), "+r"(to[6]), "+r"(to[7]),
        "+r"(to[8]), "+r"(to[9]), "+r"(to[10]), "+r"(to[11])
      : "l"(from), "r"(wanted));
}

// 16 bytes of activations to shared memory, or zeros for a row that there is not.
static __device__ __forceinline__ void packed_head_copy(void *to, const void *x, int piece, int exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
               :
               : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(static_cast<const uint4 *>(x) + piece),
                 "r"(exists ? 16 : 0)
               : "memory");
}

// Two weights: `bytes` holds theirs twice each (b0 b0 b1 b1), `fields` their exponent codes at bits 7 and 23.
static __device__ __forceinline__ unsigned packed_head_pair(unsigned bytes, unsigned fields, unsigned scale) {
  const unsigned small = (bytes & 0x807f807fu) | (fields & 0x07800780u);
  unsigned weight;
  // Exact: it adds base - 1 to the exponent of a weight whose code is not 0, and leaves a zero its sign.
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(weight) : "r"(small), "r"(scale));
  return weight;
}

// Four weights of one row: `odd` picks the half of the code word that holds their codes.
static __device__ __forceinline__ void packed_head_four(unsigned *first, unsigned *second, unsigned bytes,
                                                        unsigned codes, int odd, unsigned scale) {
  const unsigned a = odd ? codes >> 4 : codes;
  const unsigned b = odd ? __funnelshift_r(codes, codes, 8) : codes << 4;
  *first = packed_head_pair(__byte_perm(bytes, 0, 0x1100), a, scale);
  *second = packed_head_pair(__byte_perm(bytes, 0, 0x3322), b, scale);
}

// B fragments of two chunks of 16 columns for 8 rows.
static __device__ __forceinline__ void packed_head_fragments(unsigned *b, const void *from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"((unsigned)__cvta_generic_to_shared(from))
               : "memory");
}

// Activations of 64 columns for wgmma: rows of 128 bytes in the 128-byte swizzle, 1024 bytes for 8 rows.
static __device__ __forceinline__ unsigned long long packed_head_descriptor(const void *from) {
  const unsigned long long start = ((unsigned)__cvta_generic_to_shared(from) & 0x3ffff) >> 4;
  return start | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// One product of the exception list, rounded, and its sum, rounded: `x` is BF16, `entry` column << 16 | BF16 weight.
static __device__ __forceinline__ float packed_head_add(float sum, unsigned x, int entry) {
  return __fadd_rn(sum, __fmul_rn(__uint_as_float(x << 16), __uint_as_float((unsigned)entry << 16)));
}

// Sums of exceptions, [group][row][row of x]; zeros to begin with.
template <int floats>
static __device__ __forceinline__ void packed_head_zero(void *apart, int lane) {
  for (int i = lane; i < floats / 4; i += 32) static_cast<float4 *>(apart)[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

// Add the exceptions of one group that lie in the chunk at hand: a lane holds one `entry` of its first 32, `rows` of
// lanes `first` to `first` + 3 their rows in the group, 4 bits each. A lane owns every 32nd row of x.
template <int tile, int columns>
static __device__ __forceinline__ void packed_head_apart(void *apart, const void *chunk, int place, int entry, int rows,
                                                         int first, int lane) {
  unsigned left = __ballot_sync(0xffffffffu, ((entry >> 16) & 0xffff) / columns == place);
  while (left) {
    const int at = __ffs(left) - 1;
    left &= left - 1;
    const int one = __shfl_sync(0xffffffffu, entry, at);
    const int row = __shfl_sync(0xffffffffu, rows, first + at / 8) >> at % 8 * 4 & 15;
    const int column = (one >> 16 & 0xffff) % columns;
    const unsigned short *x = static_cast<const unsigned short *>(chunk) + column / 64 * (tile * 64) + column % 8;
    float *sum = static_cast<float *>(apart) + row * tile;
    for (int r = lane; r < tile; r += 32)
      sum[r] = packed_head_add(sum[r], x[r * 64 + ((column % 64 / 8) ^ (r % 8)) * 8], one);
  }
}

// Add what a group has beyond 32 exceptions, which is rare: x comes from memory. `starts` are those of its rows.
template <int tile>
static __device__ __noinline__ void packed_head_rest(void *apart, const void *x, const void *entries,
                                                     const void *starts, int first, int rows, int columns, int lane) {
  const int *bounds = static_cast<const int *>(starts);
  for (int row = 0; row < 16; ++row)
    for (int at = max(bounds[0] + 32, bounds[row]); at < bounds[row + 1]; ++at) {
      const int one = static_cast<const int *>(entries)[at];
      const unsigned short *column = static_cast<const unsigned short *>(x) + ((one >> 16) & 0xffff);
      float *sum = static_cast<float *>(apart) + row * tile;
      for (int r = lane; r < tile && first + r < rows; r += 32)
        sum[r] = packed_head_add(sum[r], column[(first + r) * columns], one);
    }
}

// Four logits, which nothing here reads again.
static __device__ __forceinline__ void packed_head_store(void *to, const void *from) {
  __stcs(static_cast<float4 *>(to), *static_cast<const float4 *>(from));
}

// The lane, asked for anew: what depends on it is not computed before the loop, which needs the registers.
static __device__ __forceinline__ int packed_head_lane() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
"""

GROUP = 16  # vocabulary rows of one block
BLOCK = 64  # columns of one block
REGISTERS = 65536  # of a multiprocessor, which gives them to four warps at a time
OTHERS = 36  # registers of a thread beside sums and weights on their way
ADDERS = 2  # warps for exceptions, which take turns with a thread block's groups
WORDS = 384  # 32-bit words of one block: 256 of signs and mantissas, 128 of exponent codes


def head(*, columns, groups, thread_blocks, most_warps, tile, chunk, stages, depth, instruction):
    """Make the program ``logits[r, v] = sum over k of x[r, k] * weight[v, k]``.

    Args:
        columns: K, the length of a row; a multiple of ``chunk``.
        groups: How many groups of 16 vocabulary rows to choose the size of a thread block for; any number is served.
        thread_blocks: How many thread blocks these are to be at most; their warps, one a group, follow.
        most_warps: A bound on the warps, which share the registers.
        tile: Rows of x that one thread block computes, a multiple of 8.
        chunk: Columns of one stage of the ring, a multiple of 64 * ``depth``.
        stages: Stages of the ring in shared memory, 3 or more.
        depth: Blocks of weights that a warp keeps on their way, halved where its registers are too few.
        instruction: ``wgmma`` or ``mma``.

    Row count, vocabulary, groups and length of the exception list are dynamic.
    """
    warpgroups = instruction == "wgmma"
    together = 4 if warpgroups else ADDERS  # warps that share an instruction, or the warps for exceptions
    warps = min(most_warps, -(-groups // (thread_blocks * together)) * together)
    threads = 32 * (warps + 1 + ADDERS)
    registers = REGISTERS // (-(-threads // 128) * 128)
    while depth > 1 and tile // 2 + 12 * depth + OTHERS > registers:
        depth //= 2
    shares = warps // ADDERS  # groups of one warp for exceptions
    inner = chunk // BLOCK
    chunks = columns // chunk
    blocks = columns // BLOCK
    panels = tile // 8
    across = chunk // 8  # pieces of 16 bytes in a row of a chunk
    down = 32 // across  # rows that the copying warp copies at once
    copies = tile // down
    if 32 % across or columns % chunk or chunk % (BLOCK * depth) or tile % 8 or stages < 3:
        raise ValueError(f"no such tile: {columns=} {chunk=} {depth=} {tile=} {stages=}")
    if instruction not in {"wgmma", "mma"} or most_warps % together:
        raise ValueError(f"no such tile: {instruction=} {most_warps=}")
    rows, vocab, listed = T.dynamic("rows"), T.dynamic("vocab"), T.dynamic("listed")
    groups = T.dynamic("groups")

    @T.prim_func
    def packed_head(
        x: T.Tensor((rows, columns), "bfloat16"),
        weights: T.Tensor((groups, blocks, WORDS), "int32"),
        starts: T.Tensor((groups, GROUP + 1), "int32"),
        leading: T.Tensor((groups, 36), "int32"),
        entries: T.Tensor((listed,), "int32"),
        base: T.int32,
        logits: T.Tensor((rows, vocab), "float32"),
    ):
        with T.Kernel(T.ceildiv(groups, warps), T.ceildiv(rows, tile), threads=threads) as (bx, by):
            T.import_source(HELPERS)
            # 64 columns of a row in 128 bytes: piece p of row r lies at p ^ r % 8, so that 8 rows meet all banks.
            ring = T.alloc_shared((stages, inner, tile, BLOCK), "bfloat16")
            apart = T.alloc_shared((warps, GROUP * tile), "float32")
            words = T.alloc_local((depth * 12,), "uint32")
            a = T.alloc_local((16,), "uint32")
            b = T.alloc_local((4,), "uint32")
            sums = T.alloc_local((panels * 4,), "float32")
            entry = T.alloc_local((shares,), "int32")
            places = T.alloc_local((-(-shares // 8),), "int32")
            late = T.alloc_local((1,), "int32")
            descriptor = T.alloc_local((1,), "uint64")
            full = T.alloc_barrier([32] * stages)
            empty = T.alloc_barrier([warps + 32 * ADDERS] * stages)
            done = T.alloc_barrier([32 * ADDERS])

            thread = T.get_thread_binding()
            lane = thread % 32
            warp = thread // 32

            if warp == warps:
                for c in T.serial(chunks + 1):
                    if c < chunks:
                        if c >= stages:
                            T.barrier_wait(empty[c % stages], (c // stages + 1) % 2)
                        for i in T.unroll(copies):
                            T.call_extern(
                                "handle",
                                "packed_head_copy",
                                T.access_ptr(
                                    ring[
                                        c % stages,
                                        lane % across // 8,
                                        i * down + lane // across,
                                        (lane % 8 ^ (i * down + lane // across) % 8) * 8,
                                    ],
                                    "w",
                                    8,
                                ),
                                T.address_of(x[0, 0]),
                                (by * tile + i * down + lane // across) * (columns // 8) + c * across + lane % across,
                                by * tile + i * down + lane // across < rows,
                            )
                    T.ptx_commit_group()
                    if c > 0:
                        T.ptx_wait_group(1)
                        if warpgroups:
                            T.fence_proxy_async()
                        T.barrier_arrive(full[(c - 1) % stages])
            elif warp > warps:
                # Group i of this warp is group i * ADDERS + turn of the thread block.
                turn = warp - warps - 1
                for i in T.unroll(shares):
                    entry[i] = leading[T.min(bx * warps + i * ADDERS + turn, groups - 1), lane]
                    T.call_extern(
                        "handle",
                        f"packed_head_zero<{GROUP * tile}>",
                        T.access_ptr(apart[i * ADDERS + turn, 0], "w", GROUP * tile),
                        lane,
                    )
                for i in T.unroll(-(-shares // 8)):
                    places[i] = leading[
                        T.min(bx * warps + (i * 8 + lane // 4) * ADDERS + turn, groups - 1), 32 + lane % 4
                    ]
                T.sync_warp()
                for c in T.serial(chunks):
                    T.barrier_wait(full[c % stages], c // stages % 2)
                    for i in T.unroll(shares):
                        T.call_extern(
                            "handle",
                            f"packed_head_apart<{tile}, {chunk}>",
                            T.access_ptr(apart[i * ADDERS + turn, 0], "rw", GROUP * tile),
                            T.access_ptr(ring[c % stages, 0, 0, 0], "r", chunk * tile),
                            c,
                            entry[i],
                            places[i // 8],
                            i % 8 * 4,
                            lane,
                        )
                    # Every lane for itself: each has read what is written over next.
                    T.barrier_arrive(empty[c % stages])
                for i in T.serial(shares):
                    own = bx * warps + i * ADDERS + turn
                    if own < groups:
                        if starts[own, GROUP] - starts[own, 0] > 32:
                            T.call_extern(
                                "handle",
                                f"packed_head_rest<{tile}>",
                                T.access_ptr(apart[i * ADDERS + turn, 0], "rw", GROUP * tile),
                                T.address_of(x[0, 0]),
                                T.address_of(entries[0]),
                                T.address_of(starts[own, 0]),
                                by * tile,
                                rows,
                                columns,
                                lane,
                            )
                T.barrier_arrive(done[0])
            else:
                own = bx * warps + warp
                group = T.min(own, groups - 1)
                scale = T.Cast("uint32", (base + 126) * 0x00800080)
                stream = group * (blocks * WORDS // 4) + lane  # in pieces of 16 bytes, which keep within 32 bits

                for i in T.unroll(depth):
                    T.call_extern(
                        "handle",
                        "packed_head_load",
                        T.access_ptr(words[i * 12], "w", 12),
                        T.address_of(weights[0, 0, 0]),
                        stream + i * (WORDS // 4),
                        1,
                    )
                for i in T.unroll(panels * 4):
                    sums[i] = 0.0

                for c in T.serial(chunks):
                    for i in T.unroll(inner):
                        for j in T.unroll(4):
                            for half in T.unroll(2):
                                T.call_extern(
                                    "handle",
                                    "packed_head_four",
                                    T.access_ptr(a[j * 4 + half], "w", 1),
                                    T.access_ptr(a[j * 4 + half + 2], "w", 1),
                                    words[i % depth * 12 + half * 4 + j],
                                    words[i % depth * 12 + 8 + half * 2 + j // 2],
                                    j % 2,
                                    scale,
                                )
                        T.call_extern(
                            "handle",
                            "packed_head_load",
                            T.access_ptr(words[i % depth * 12], "rw", 12),
                            T.address_of(weights[0, 0, 0]),
                            stream + (c * inner + i + depth) * (WORDS // 4),
                            c * inner + i + depth < blocks,
                        )
                        if i == 0:
                            T.barrier_wait(full[c % stages], c // stages % 2)
                        if warpgroups:
                            descriptor[0] = T.call_extern(
                                "uint64",
                                "packed_head_descriptor",
                                T.access_ptr(ring[c % stages, i, 0, 0], "r", tile * BLOCK),
                            )
                            T.warpgroup_fence_operand(a, num_regs=16)
                            T.warpgroup_fence_operand(sums, num_regs=panels * 4)
                            T.warpgroup_arrive()
                            for j in T.unroll(4):
                                T.ptx_wgmma_rs(
                                    "float32",
                                    f"m64n{tile}k16",
                                    True,
                                    "bf16",
                                    "bf16",
                                    "fp32",
                                    a.data,
                                    j * 4,
                                    descriptor[0],
                                    j * 2,
                                    sums.data,
                                    0,
                                    1,
                                    1,
                                    1,
                                )
                            T.warpgroup_commit_batch()
                            T.warpgroup_wait(0)
                            T.warpgroup_fence_operand(sums, num_regs=panels * 4)
                            T.warpgroup_fence_operand(a, num_regs=16)
                        else:
                            for n in T.unroll(panels):
                                for h in T.unroll(2):
                                    T.call_extern(
                                        "handle",
                                        "packed_head_fragments",
                                        T.access_ptr(b[0], "w", 4),
                                        T.access_ptr(
                                            ring[c % stages, i, n * 8 + lane % 8, ((h * 4 + lane // 8) ^ lane % 8) * 8],
                                            "r",
                                            8,
                                        ),
                                    )
                                    for j in T.unroll(2):
                                        T.ptx_mma(
                                            "float32",
                                            "m16n8k16",
                                            "row",
                                            "col",
                                            "bf16",
                                            "bf16",
                                            "fp32",
                                            a.data,
                                            h * 8 + j * 4,
                                            b.data,
                                            j * 2,
                                            sums.data,
                                            n * 4,
                                            T.bool(False),
                                        )
                    if lane == 0:
                        T.barrier_arrive(empty[c % stages])

                T.barrier_wait(done[0], 0)
                late[0] = T.call_extern("int32", "packed_head_lane")
                g = late[0] // 4
                t = late[0] % 4
                for half in T.unroll(2):
                    for n in T.unroll(panels):
                        for i in T.unroll(2):
                            sums[n * 4 + half * 2 + i] += apart[warp, (half * 8 + g) * tile + n * 8 + t * 2 + i]
                T.sync_warp()
                # By rows of x now, so that a row's 16 logits are written together; fours turned to spread the banks.
                for half in T.unroll(2):
                    for n in T.unroll(panels):
                        for i in T.unroll(2):
                            apart[warp, (n * 8 + t * 2 + i) * GROUP + (g // 4 + half * 2 ^ t) * 4 + g % 4] = sums[
                                n * 4 + half * 2 + i
                            ]
                T.sync_warp()
                if own < groups:
                    if vocab % 4 == 0:
                        for n in T.unroll(panels):
                            if by * tile + n * 8 + g < rows and group * GROUP + t * 4 < vocab:
                                T.call_extern(
                                    "handle",
                                    "packed_head_store",
                                    T.access_ptr(logits[by * tile + n * 8 + g, group * GROUP + t * 4], "w", 4),
                                    T.access_ptr(apart[warp, (n * 8 + g) * GROUP + (t ^ g // 2) * 4], "r", 4),
                                )
                    else:
                        for n in T.unroll(tile // 2):
                            place = late[0] % 16
                            line = n * 2 + late[0] // 16
                            if by * tile + line < rows and group * GROUP + place < vocab:
                                logits[by * tile + line, group * GROUP + place] = apart[
                                    warp, line * GROUP + (place // 4 ^ line // 2 % 4) * 4 + place % 4
                                ]

    return packed_head
