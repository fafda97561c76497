# SPDX-License-Identifier: Apache-2.0
"""Pack BF16 weights into 12 bits each, exactly: what does not fit the exponent window goes to a list of exceptions.

A BF16 value is sign (1 bit), exponent (8), mantissa (7). The main stream keeps sign and mantissa in a byte and the
exponent as a code of 4 bits: code c in 1..15 is the exponent ``base + c - 1``, code 0 is a zero of either sign. Any
other value (outside the window, subnormal, infinite, NaN) is an exception: its place in the main stream holds a zero
of its sign, and its row's list holds (column, value), columns ascending.

Main stream: for each group of 16 rows, for each block of 64 columns, 1536 bytes, in the order in which a tensor core
takes them. Lane ``l`` of a warp stands for rows ``g = l // 4`` and ``g + 8`` of the group, and with ``t = l % 4`` for
the columns ``16 * j + 2 * t + (0, 1, 8, 9)`` of the block, j = 0 .. 3, which are its 16 in this order:

    bytes    0 ..  511   16 bytes a lane: sign << 7 | mantissa of row g
    bytes  512 .. 1023   the same of row g + 8
    bytes 1024 .. 1535   16 bytes a lane, four little-endian words: codes of row g's first and last 8, then row g + 8's

In a code word the pair (2p, 2p + 1) is ``c[2p] << 7 | c[2p + 1] << 23``, rotated left by 0, 28, 4 and 8 bits for
p = 0 .. 3: the kernel gets both exponents in place with one rotation and one mask.

The last group is padded with rows of +0 that have no exceptions. Nothing here depends on the kernel's tile.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

GROUP = 16
BLOCK = 64
LEADING = 32  # a warp's lanes
WINDOW = 15
LAST_BASE = 128  # the kernel multiplies by 2^(base - 1), which must be a finite BF16
SLAB = 256  # rows packed at once: bounds the memory of the temporaries


class NotPackable(ValueError):
    """The weights cannot be packed: a wrong type or shape, or unpacking did not give back every bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedHead:
    """Packed weights of ``vocab`` rows by ``columns``, 1.5 bytes a weight.

    ``blocks`` is int32 [groups, columns / 64, 384]; ``starts`` int32 [groups, 17]: row i of a group owns
    ``entries[starts[i]:starts[i + 1]]``; ``entries`` int32: column << 16 | the value's bits (one unused entry where
    there is no exception at all); ``leading`` int32 [groups, 36]: a group's first 32 entries again, so that a kernel
    finds them without asking where they are, then 32 times 4 bits: the row of each, the first in the lowest bits (an
    entry that there is not has column 65535 and value 0); ``base`` the window's first exponent, 1 to 128.
    """

    vocab: int
    columns: int
    base: int
    blocks: torch.Tensor
    starts: torch.Tensor
    leading: torch.Tensor
    entries: torch.Tensor

    @property
    def exceptions(self) -> int:
        """How many there are; waits for the device."""
        return int(self.starts[-1, -1])

    @property
    def nbytes(self) -> int:
        """Bytes that one product reads of it where no group has more than 32 exceptions."""
        return sum(part.numel() * part.element_size() for part in (self.blocks, self.starts, self.leading))


def bits_of(weight: torch.Tensor) -> torch.Tensor:
    """Give the 16 bits of each BF16 value as int32, 0 to 65535."""
    return weight.contiguous().view(torch.int16).to(torch.int32) & 0xFFFF


def choose_base(weight: torch.Tensor) -> int:
    """Choose the window that leaves the fewest exceptions; of equals the lowest."""
    counts = torch.zeros(256, dtype=torch.int64, device=weight.device)
    for slab in weight.split(SLAB):
        counts += torch.bincount((slab.contiguous().view(torch.int16).flatten() >> 7) & 0xFF, minlength=256)
    inside = torch.stack([counts[base : base + WINDOW].sum() for base in range(1, LAST_BASE + 1)]).tolist()
    return 1 + inside.index(max(inside))


def pack(weight: torch.Tensor, base: int | None = None) -> PackedHead:
    """Pack BF16 ``weight`` [vocab, columns], columns a multiple of 64 up to 65472, on the device where it lies.

    Raises:
        NotPackable: For another type or shape, or where unpacking does not give back every bit.
    """
    if weight.dtype != torch.bfloat16 or weight.dim() != 2 or 0 in weight.shape:
        raise NotPackable(f"expected a matrix of bfloat16, got {weight.dtype} {tuple(weight.shape)}")
    weight = weight.contiguous()
    vocab, columns = weight.shape
    if columns % BLOCK or columns >= 1 << 16:
        raise NotPackable(f"expected a multiple of {BLOCK} columns up to 65472, got {columns}")
    base = choose_base(weight) if base is None else base
    if not 1 <= base <= LAST_BASE:
        raise NotPackable(f"expected a base of 1 to {LAST_BASE}, got {base}")
    parts = [_pack_slab(slab, base) for slab in weight.split(SLAB)]
    counts = torch.cat([part[1] for part in parts])
    entries = torch.cat([part[2] for part in parts])
    offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    rows = torch.arange(len(counts) // GROUP, device=weight.device)[:, None] * GROUP
    entries = entries if len(entries) else entries.new_zeros(1)
    starts = offsets[rows + torch.arange(GROUP + 1, device=weight.device)]
    packed = PackedHead(
        vocab=vocab,
        columns=columns,
        base=base,
        blocks=torch.cat([part[0] for part in parts]),
        starts=starts.to(torch.int32).contiguous(),
        leading=_leading(starts, entries),
        entries=entries,
    )
    _check(packed, weight)
    return packed


def unpack(packed: PackedHead) -> torch.Tensor:
    """Give back the BF16 weights [vocab, columns], every bit."""
    slabs = (unpack_slab(packed, first) for first in range(0, packed.vocab, SLAB))
    return torch.cat(list(slabs))


def unpack_slab(packed: PackedHead, first: int) -> torch.Tensor:
    """Give back up to SLAB rows from row ``first``, a multiple of 16."""
    bits = main_stream_bits(packed, first, SLAB)
    last = min(first + SLAB, packed.vocab)
    rows, columns, values = exceptions_of(packed, first, last)
    bits[rows - first, columns] = values.to(torch.int16)
    return bits.view(torch.bfloat16)


def main_stream_bits(packed: PackedHead, first: int, count: int) -> torch.Tensor:
    """Give the bits, as int16, that the main stream holds for ``count`` rows from ``first``: zeros at exceptions."""
    groups = slice(first // GROUP, -(-min(first + count, packed.vocab) // GROUP))
    blocks = packed.blocks[groups]
    total, across = blocks.shape[:2]
    small = blocks[:, :, :256].contiguous().view(torch.uint8).view(total, across, 2, 8, 4, 4, 2, 2)
    codes = _codes_of_words(blocks[:, :, 256:]).view(total, across, 8, 4, 2, 4, 2, 2).permute(0, 1, 4, 2, 3, 5, 6, 7)
    exponent = torch.where(codes > 0, codes + (packed.base - 1), 0)
    raw = torch.stack([exponent << 7 | small & 0x7F, small & 0x80 | exponent >> 1], dim=-1)
    bits = raw.permute(0, 2, 3, 1, 5, 6, 4, 7, 8).reshape(total * GROUP, packed.columns * 2).view(torch.int16)
    return bits[: min(count, packed.vocab - first)]


def exceptions_of(packed: PackedHead, first: int, last: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Give rows, columns and value bits of the exceptions of rows ``first`` to ``last``, in the order of the lists."""
    starts = torch.cat([packed.starts[:, :-1].flatten(), packed.starts[-1, -1:]]).to(torch.int64)
    lengths = (starts[1:] - starts[:-1])[first:last]
    entries = packed.entries[int(starts[first]) : int(starts[last])]
    rows = torch.repeat_interleave(torch.arange(first, last, device=starts.device), lengths)
    return rows, ((entries >> 16) & 0xFFFF).to(torch.int64), entries & 0xFFFF


def _pack_slab(weight: torch.Tensor, base: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Give a slab's blocks, the exception count of each of its rows (padding included), and its entries."""
    groups = -(-len(weight) // GROUP)
    raw = torch.nn.functional.pad(weight.contiguous().view(torch.uint8), (0, 0, 0, groups * GROUP - len(weight)))
    across = weight.shape[1] // BLOCK
    low, high = raw.view(-1, weight.shape[1], 2).unbind(-1)
    exponent, mantissa = high << 1 | low >> 7, low & 0x7F
    code = exponent - (base - 1)  # modulo 256
    inside = (code >= 1) & (code <= WINDOW)
    outside = ~inside & ((exponent | mantissa) != 0)
    small = high & 0x80 | torch.where(inside, mantissa, 0)
    code = torch.where(inside, code, 0)

    places = (
        groups,
        2,
        8,
        across,
        4,
        2,
        4,
        2,
    )  # group, half, g, block; column 16 * j + 8 * e + 2 * t + f as j, e, t, f
    stream = small.view(places).permute(0, 3, 1, 2, 6, 4, 5, 7).reshape(groups, across, 1024)
    words = _words_of_codes(code.view(places).permute(0, 3, 2, 6, 1, 4, 5, 7).reshape(groups, across, 128, 8))
    blocks = torch.cat([stream.view(torch.int32), words], dim=2)

    rows, columns = outside.nonzero(as_tuple=True)
    value = bits_of(weight[rows, columns])
    signed = torch.where(columns >= 1 << 15, columns - (1 << 16), columns).to(torch.int32)
    return blocks, outside.sum(1), signed << 16 | value


def _leading(starts: torch.Tensor, entries: torch.Tensor) -> torch.Tensor:
    """Give each group's first entries and, in four words, their rows."""
    nearest = starts[:, :1] + torch.arange(LEADING, device=starts.device)
    there = nearest < starts[:, -1:]
    first = torch.where(there, entries[nearest.clamp(max=len(entries) - 1)], -(1 << 16))
    row = (nearest[:, :, None] >= starts[:, None, 1:GROUP]).sum(2)
    row = row << torch.arange(LEADING, device=starts.device) % 8 * 4
    words = torch.where(there, row, 0).view(-1, 4, 8).sum(2)
    return torch.cat([first, torch.where(words >= 1 << 31, words - (1 << 32), words)], dim=1).to(torch.int32)


def _words_of_codes(codes: torch.Tensor) -> torch.Tensor:
    """Make a word, as int32, of each 8 codes of the last dimension."""
    pairs = codes[..., 0::2].to(torch.int32) << 7 | codes[..., 1::2].to(torch.int32) << 23
    first, second, third, fourth = pairs.unbind(-1)
    return first | second >> 4 | third << 4 | fourth << 8 | fourth >> 24


def _codes_of_words(words: torch.Tensor) -> torch.Tensor:
    """Give the 8 codes of each word, as uint8, in a new last dimension."""
    # Arithmetic shifts fill from the left with the sign, which the masks drop.
    turned = (words, words << 4, words >> 4, (words >> 8) & 0xFFFFFF | words << 24)
    codes = [turned_word >> place & 15 for turned_word in turned for place in (7, 23)]
    return torch.stack([code.to(torch.uint8) for code in codes], dim=-1)


def _check(packed: PackedHead, weight: torch.Tensor) -> None:
    for first in range(0, packed.vocab, SLAB):
        wanted = weight[first : first + SLAB].view(torch.int16)
        got = unpack_slab(packed, first).view(torch.int16)
        if not torch.equal(wanted, got):
            row, column = (wanted != got).nonzero()[0].tolist()
            raise NotPackable(
                f"unpacking does not give back row {first + row}, column {column}: "
                f"expected 0x{int(wanted[row, column]) & 0xFFFF:04x}, got 0x{int(got[row, column]) & 0xFFFF:04x}"
            )
