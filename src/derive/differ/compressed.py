# SPDX-License-Identifier: Apache-2.0
"""Two compressed streams: what they unpack to, and where that is the same, how their compression differs.

Core: no IO.
"""

from __future__ import annotations

from derive.archives.stream import decompressed
from derive.differ.model import Compare, Content, Report, Sides
from derive.differ.raw import compare_raw
from derive.trees.diff import first_difference

_SUFFIXES = (".gz", ".xz", ".bz2", ".tgz", ".txz")


def compare_compressed(report: Report, name: str, sides: Sides, compare: Compare) -> None:
    """Compare what two streams unpack to; raises what the decompressor raises."""
    limit = report.limits.read_bytes
    inner = tuple(Content(lambda one=side: decompressed(name, one.pieces(), limit)) for side in sides)  # type: ignore[misc]
    heads = [report.head(side, 10) for side in sides]
    if all(head.startswith(b"\x1f\x8b") for head in heads):
        _gzip_headers(report, heads[0], heads[1])
    if first_difference(*(report.read(one) for one in inner)) is None:
        report.say("unpacks to the same bytes: compressed otherwise")
        compare_raw(report, sides)
        return
    plain = next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)
    compare(report, plain, (inner[0], inner[1]))


def _gzip_headers(report: Report, first: bytes, second: bytes) -> None:
    fields = {"flags": slice(3, 4), "time": slice(4, 8), "level": slice(8, 9), "system": slice(9, 10)}
    for what, place in fields.items():
        old, new = (int.from_bytes(head[place], "little") for head in (first, second))
        if old != new:
            report.say(f"gzip header, {what}: {old} -> {new}")
