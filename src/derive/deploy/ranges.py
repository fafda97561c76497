# SPDX-License-Identifier: Apache-2.0
"""Which bytes a request's ``Range`` header asks for (RFC 9110, section 14).

Core: no IO. Standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ONE = re.compile(r"bytes=(?P<first>[0-9]{0,18})-(?P<last>[0-9]{0,18})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Bytes of something: where they start, how many there are, and whether a part was asked for at all."""

    start: int
    size: int
    is_partial: bool


def part_of(header: str | None, size: int) -> Part | None:
    """Return the bytes that are asked for of ``size``, or None where there are none such.

    A header of another form, or of several ranges, may be ignored by who serves: the whole is then sent.
    """
    found = _ONE.fullmatch("" if header is None else header.strip())
    whole = Part(start=0, size=size, is_partial=False)
    if found is None or not (found["first"] or found["last"]):
        return whole
    if not found["first"]:
        count = min(int(found["last"]), size)
        return Part(start=size - count, size=count, is_partial=True) if count else None
    first = int(found["first"])
    last = min(int(found["last"] or size), size - 1)
    if found["last"] and int(found["last"]) < first:
        return whole
    return Part(start=first, size=last - first + 1, is_partial=True) if first < size else None
