# SPDX-License-Identifier: Apache-2.0
"""Logits of 1 to 96 rows from packed BF16 weights: every weight goes from memory to a tensor core through registers.

A warp owns one group of 16 vocabulary rows and streams its blocks over all columns, a few blocks ahead, with 16-byte
loads past L1. A block's order in memory is the order of the tensor core's fragments, so shared memory holds activations
only: a ring of column chunks, filled with ``cp.async``, each chunk read by all warps of the thread block.

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
      "@p ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%12];\n"
      "@p ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%4, %5, %6, %7}, [%12+512];\n"
      "@p ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%8, %9, %10, %11}, [%12+1024];\n"
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

static __device__ __forceinline__ int packed_head_from_lane(int value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

static __device__ __forceinline__ int packed_head_most(int value) {
  return __reduce_max_sync(0xffffffffu, value);
}

// Keep the column of x for each exception, one a lane, that lies in the chunk at hand: [exception][row]. `mine` says
// whether the lane's does.
template <int tile, int columns>
static __device__ __forceinline__ void packed_head_keep(void *kept, const void *chunk, int entry, int mine, int lane) {
  unsigned left = __ballot_sync(0xffffffffu, mine);
  while (left) {
    const int slot = __ffs(left) - 1;
    left &= left - 1;
    const int column = (__shfl_sync(0xffffffffu, entry, slot) >> 16) & (columns - 1);
    const unsigned short *from = static_cast<const unsigned short *>(chunk) + column / 64 * (tile * 64) + column % 8;
    for (int row = lane; row < tile; row += 32)
      static_cast<unsigned short *>(kept)[slot * tile + row] = from[row * 64 + ((column % 64 / 8) ^ (row % 8)) * 8];
  }
}

// One product of the exception list, rounded, and its sum, rounded: `x` is BF16, `entry` column << 16 | BF16 weight.
static __device__ __forceinline__ float packed_head_add(float sum, unsigned x, int wanted, int entry) {
  const float product = __fmul_rn(__uint_as_float(x << 16), __uint_as_float((unsigned)entry << 16));
  return wanted ? __fadd_rn(sum, product) : sum;
}

static __device__ __forceinline__ unsigned packed_head_kept(const void *kept, int place) {
  return static_cast<const unsigned short *>(kept)[place];
}

static __device__ __forceinline__ unsigned packed_head_x(const void *x, int place, int wanted) {
  return wanted ? static_cast<const unsigned short *>(x)[place] : 0;
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
        depth: Blocks of weights that a warp keeps on their way.
        instruction: ``wgmma`` or ``mma``.

    Row count, vocabulary, groups and length of the exception list are dynamic.
    """
    warpgroups = instruction == "wgmma"
    together = 4 if warpgroups else 1  # warps that share an instruction
    warps = min(most_warps, -(-groups // (thread_blocks * together)) * together)
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
        entries: T.Tensor((listed,), "int32"),
        base: T.int32,
        logits: T.Tensor((rows, vocab), "float32"),
    ):
        with T.Kernel(T.ceildiv(groups, warps), T.ceildiv(rows, tile), threads=32 * (warps + 1)) as (bx, by):
            T.import_source(HELPERS)
            # 64 columns of a row in 128 bytes: piece p of row r lies at p ^ r % 8, so that 8 rows meet all banks.
            ring = T.alloc_shared((stages, inner, tile, BLOCK), "bfloat16")
            kept = T.alloc_shared((warps, 32, tile), "bfloat16")
            words = T.alloc_local((depth * 12,), "uint32")
            a = T.alloc_local((16,), "uint32")
            b = T.alloc_local((4,), "uint32")
            sums = T.alloc_local((panels * 4,), "float32")
            bounds = T.alloc_local((1,), "int32")
            listing = T.alloc_local((1,), "int32")
            late = T.alloc_local((1,), "int32")
            length = T.alloc_local((1,), "int32")
            least = T.alloc_local((2,), "int32")
            most = T.alloc_local((2,), "int32")
            entry = T.alloc_local((1,), "int32")
            descriptor = T.alloc_local((1,), "uint64")
            full = T.alloc_barrier([32] * stages)
            empty = T.alloc_barrier([warps] * stages)

            thread = T.get_thread_binding()
            lane = thread % 32
            warp = thread // 32

            if warp == warps:
                for c in T.serial(chunks):
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
                    if c >= 1:
                        T.ptx_wait_group(1)
                        if warpgroups:
                            T.fence_proxy_async()
                        T.barrier_arrive(full[(c - 1) % stages])
                T.ptx_wait_group(0)
                if warpgroups:
                    T.fence_proxy_async()
                T.barrier_arrive(full[(chunks - 1) % stages])
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
                bounds[0] = starts[group, T.min(lane, GROUP)]
                for i in T.unroll(panels * 4):
                    sums[i] = 0.0
                # The group's first 32 exceptions, one a lane.
                start = T.call_extern("int32", "packed_head_from_lane", bounds[0], 0)
                listing[0] = entries[T.min(start + lane, listed - 1)]
                length[0] = T.call_extern("int32", "packed_head_from_lane", bounds[0], GROUP) - start

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
                    # Declared as read: it is written for this warp alone, so the matrix instructions need no fence.
                    T.call_extern(
                        "handle",
                        f"packed_head_keep<{tile}, {chunk}>",
                        T.access_ptr(kept[warp, 0, 0], "r", 32 * tile),
                        T.access_ptr(ring[c % stages, 0, 0, 0], "r", chunk * tile),
                        listing[0],
                        lane < length[0] and ((listing[0] >> 16) & 0xFFFF) // chunk == c,
                        lane,
                    )
                    if lane == 0:
                        T.barrier_arrive(empty[c % stages])

                T.sync_warp()
                late[0] = T.call_extern("int32", "packed_head_lane")
                first = by * tile + late[0] % 4 * 2
                place = late[0] // 4
                for half in T.unroll(2):
                    least[half] = T.call_extern("int32", "packed_head_from_lane", bounds[0], half * 8 + place)
                    most[half] = T.call_extern("int32", "packed_head_from_lane", bounds[0], half * 8 + place + 1)
                length[0] = T.call_extern("int32", "packed_head_most", T.max(most[0] - least[0], most[1] - least[1]))
                start = T.call_extern("int32", "packed_head_from_lane", bounds[0], 0)
                for e in T.serial(length[0]):
                    for half in T.unroll(2):
                        slot = least[half] + e - start
                        entry[0] = T.call_extern("int32", "packed_head_from_lane", listing[0], slot % 32)
                        if slot < 32:
                            for n in T.unroll(panels):
                                for i in T.unroll(2):
                                    sums[n * 4 + half * 2 + i] = T.call_extern(
                                        "float32",
                                        "packed_head_add",
                                        sums[n * 4 + half * 2 + i],
                                        T.call_extern(
                                            "uint32",
                                            "packed_head_kept",
                                            T.access_ptr(kept[warp, 0, 0], "r", 32 * tile),
                                            slot * tile + n * 8 + late[0] % 4 * 2 + i,
                                        ),
                                        least[half] + e < most[half],
                                        entry[0],
                                    )
                        elif least[half] + e < most[half]:
                            entry[0] = entries[least[half] + e]
                            for n in T.unroll(panels):
                                for i in T.unroll(2):
                                    sums[n * 4 + half * 2 + i] = T.call_extern(
                                        "float32",
                                        "packed_head_add",
                                        sums[n * 4 + half * 2 + i],
                                        T.call_extern(
                                            "uint32",
                                            "packed_head_x",
                                            T.address_of(x[0, 0]),
                                            (first + n * 8 + i) * columns + ((entry[0] >> 16) & 0xFFFF),
                                            first + n * 8 + i < rows,
                                        ),
                                        1,
                                        entry[0],
                                    )
                for half in T.unroll(2):
                    if own < groups and group * GROUP + half * 8 + place < vocab:
                        for n in T.unroll(panels):
                            for i in T.unroll(2):
                                if first + n * 8 + i < rows:
                                    logits[first + n * 8 + i, group * GROUP + half * 8 + place] = sums[
                                        n * 4 + half * 2 + i
                                    ]

    return packed_head
