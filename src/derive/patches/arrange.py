# SPDX-License-Identifier: Apache-2.0
"""A series file with other names in it: comments stay with the patch below them, and those at the top at the top.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Sequence


def series_text(data: bytes, names: Sequence[str]) -> bytes:
    """Return a series file that names these patches in this order; unchanged where it does already."""
    head: list[bytes] = []
    rows: dict[str, list[bytes]] = {}
    comments: list[bytes] = []
    order: list[str] = []
    for row in data.removesuffix(b"\n").split(b"\n"):
        words = row.split(b"#", 1)[0].split() if not row.lstrip().startswith(b"#") else []
        if not words:
            comments.append(row)
            continue
        name = words[0].decode("utf-8", "replace")
        if not order:
            head, comments = comments, []
        order.append(name)
        rows[name] = [*comments, row]
        comments = []
    if order == list(names):
        return data
    if not order:
        head, comments = comments, []
    text = [*head, *(row for name in names for row in rows.get(name, [name.encode()])), *comments]
    return b"".join(row + b"\n" for row in text)
