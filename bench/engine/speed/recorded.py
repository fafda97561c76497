# SPDX-License-Identifier: Apache-2.0
"""Steps as they were recorded, and a graph of any number of derivations made of them.

Core: no IO, no chance: the same number gives the same graph.
"""

from __future__ import annotations

import hashlib

from derive.schedule.model import Kind, Task

MEGABYTE = 1_000_000

RECORDED: tuple[tuple[str, int, int], ...] = (
    ("script", 1_707, 754_368),
    ("script", 15_931, 3_568_644),
    ("script", 19_525, 3_394_692),
    ("script", 29_351, 15_546),
    ("script", 1_739, 1_399_729),
    ("script", 8_741, 3_149),
    ("script", 25_241, 136_030),
    ("script", 22_207, 21_768),
    ("script", 51_518, 37_923),
    ("script", 481, 4_337),
    ("kernel device", 12_046, 61_682),
    ("kernel device", 13_853, 74_100),
    ("kernel device", 19_555, 122_562),
    ("kernel device", 18_117, 172_098),
    ("kernel device", 14_001, 428_149),
    ("kernel device", 13_130, 379_642),
    ("kernel device", 13_599, 224_432),
    ("kernel device", 13_724, 150_062),
    ("kernel device", 7_400, 110_125),
    ("kernel device", 8_436, 102_929),
    ("kernel device", 10_301, 102_135),
    ("kernel device", 11_726, 379_380),
    ("kernel host", 1_424, 43_469),
    ("kernel host", 1_623, 47_611),
    ("kernel host", 1_197, 93_683),
    ("kernel host", 966, 117_695),
    ("kernel host", 493, 117_383),
    ("kernel host", 588, 126_583),
)
"""What the steps of this repository's own images took on two cores: builder, milliseconds, bytes that each gave."""

ROOTS = (("userland", 300 * MEGABYTE), ("toolchain", 630 * MEGABYTE), ("kernel toolchain", 1500 * MEGABYTE))
"""What steps run in, with sizes as they are sent."""

_LEAVES = 5
_BACK = 150
_MOST_NEEDS = 3


def graph(count: int, platform: str = "linux/amd64") -> list[Task]:
    """Return a graph: a fifth needs nothing, every other step up to three of the 150 before it."""
    tasks: list[Task] = []
    for place in range(count):
        drawn = hashlib.sha256(b"step %d" % place).digest()
        builder, milliseconds, gives = RECORDED[drawn[0] % len(RECORDED)]
        root = ROOTS[2] if builder.startswith("kernel") else ROOTS[drawn[1] % 2]
        needs: set[int] = set()
        if place and drawn[2] % _LEAVES:
            back = min(place, _BACK)
            wanted = 1 + drawn[3] % _MOST_NEEDS
            needs = {place - 1 - int.from_bytes(drawn[4 + 2 * n : 6 + 2 * n]) % back for n in range(wanted)}
        reads = (root, *((tasks[need].key, tasks[need].gives_bytes) for need in sorted(needs)))
        tasks.append(
            Task(
                key=f"step-{place}",
                name=f"{builder} {place}",
                kind=Kind.SANDBOX,
                duration_ns=milliseconds * 1_000_000,
                needs=tuple(sorted(needs)),
                platform=platform,
                reads=reads,
                gives_bytes=gives,
            )
        )
    return tasks
