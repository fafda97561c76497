# SPDX-License-Identifier: Apache-2.0
"""Which algorithms a cabling carries, and why it does not carry the others.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from itertools import combinations

from derive.fabric.collectives import ALGORITHMS, Algorithm
from derive.fabric.site import Site


def why_not(algorithm: Algorithm, site: Site) -> str | None:
    """Return why a site's cables do not carry an algorithm, or None where they do."""
    count = len(site.nodes)
    joined = {frozenset(cable.ranks) for cable in site.cables}
    if algorithm == "direct":
        apart = [pair for pair in combinations(range(count), 2) if frozenset(pair) not in joined]
        return f"every pair of ranks needs a cable, and there is none between {_pairs(apart, site)}" if apart else None
    if algorithm in ("relay", "mesh") and count != 4:
        return f"four ranks in a ring are needed, and here every one of {count} is every other's neighbour"
    apart = [(one, (one + 1) % count) for one in range(count) if frozenset((one, (one + 1) % count)) not in joined]
    return f"the ring is open: there is no cable between {_pairs(apart, site)}" if apart else None


def possible(site: Site) -> tuple[Algorithm, ...]:
    """Return the algorithms that a site's cables carry."""
    return tuple(algorithm for algorithm in ALGORITHMS if why_not(algorithm, site) is None)


def _pairs(pairs: list[tuple[int, int]], site: Site) -> str:
    texts = [f"{site.nodes[a].name} and {site.nodes[b].name}" for a, b in pairs]
    return ", nor between ".join(texts)
