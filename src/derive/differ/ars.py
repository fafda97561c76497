# SPDX-License-Identifier: Apache-2.0
"""Two ar archives, Debian packages and static libraries among them.

Core: no IO.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from derive.archives.ar import ArMember, read_ar
from derive.differ.members import Member, Opened, compare_members, numbered
from derive.differ.model import Compare, Content, Report, Sides
from derive.why.render import text_of

_MEMBERS = 10_000


def compare_ar(report: Report, sides: Sides, compare: Compare) -> None:
    """Compare two ar archives; raises what their reader raises for what is none."""
    held = [report.hold(side) for side in sides]
    read = [read_ar("ar", lambda at, size, data=data: data[at : at + size], len(data), most=_MEMBERS) for data in held]  # type: ignore[misc]
    first, second = (numbered([_member(data, one) for one in rows]) for data, rows in zip(held, read, strict=True))
    opened = (_opened(held[0], first, read[0]), _opened(held[1], second, read[1]))
    compare_members(report, (first, second), opened, compare)


def _member(data: bytes, member: ArMember) -> Member:
    header = data[member.offset - 60 : member.offset]
    fields = {"time": header[16:28], "owner": header[28:34], "group": header[34:40], "mode": header[40:48]}
    facts = {name: text_of(field.rstrip(b" ")) for name, field in fields.items()}
    digest = hashlib.sha256(_bytes(data, member)).hexdigest()
    return Member(name=text_of(member.name), facts=facts, contents=digest, size=member.size)


def _bytes(data: bytes, member: ArMember) -> bytes:
    return data[member.offset : member.offset + member.size]


def _opened(data: bytes, names: Mapping[str, Member], members: Sequence[ArMember]) -> Opened:
    places = dict(zip(names, members, strict=True))
    return lambda wanted: {name: Content.of(_bytes(data, places[name])) for name in wanted}
