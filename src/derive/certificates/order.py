# SPDX-License-Identifier: Apache-2.0
"""What the chain of releases says of early and late: where no signature's own time can be believed.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Sequence

from derive.canonical import Digest
from derive.certificates.judge import Order
from derive.records.chain import Chain

_TIMES = ("made_s", "promoted_s", "retired_s", "observed_s")


def order_of(chain: Chain) -> Order:
    """Return the number of each record, and of the first that names each certificate."""
    named: dict[Digest, int] = {}
    for entry in chain.entries:
        certificates = entry.record.body.get("certificates")
        if entry.record.kind == "promoted" and isinstance(certificates, Sequence):
            for text in certificates:
                named.setdefault(Digest.parse(str(text)), entry.number)
    return Order(numbers={entry.digest: entry.number for entry in chain.entries}, named=named)


def last_before(chain: Chain, since_s: int | None) -> Digest | None:
    """Return the last record before the first that says a time at or after ``since_s``; the last of all without one.

    A record that says none is as old as the one before it.
    """
    last: Digest | None = None
    for entry in chain.entries:
        times = [value for key in _TIMES if isinstance(value := entry.record.body.get(key), int)]
        if since_s is not None and any(value >= since_s for value in times):
            break
        last = entry.digest
    return last
