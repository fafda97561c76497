# SPDX-License-Identifier: Apache-2.0
"""What a database knows of everything that was built upon an output, forgotten once that output is another one.

Edge: the store's database, inside the caller's transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Mapping

from derive.canonical import Digest


def forget_above(cursor: sqlite3.Cursor, resolved: Digest, outputs: Mapping[str, str]) -> None:
    """Forget to what those steps resolve that rest on an output which came from a cache, where it is another one now.

    ``outputs`` are those that take its place. What images were recalled by is forgotten with it. What the steps above
    gave is kept: under the resolved ids of the inputs that they had, it is right.
    """
    sql = "SELECT outputs FROM realisations WHERE resolved = ? AND resolved IN (SELECT resolved FROM substitutions)"
    row = cursor.execute(sql, (resolved.hex,)).fetchone()
    if row is None or json.loads(row[0]) == dict(outputs):
        return
    above: dict[str, set[str]] = defaultdict(set)
    level: set[str] = set()
    for key, led_to, document in cursor.execute("SELECT id, resolved, document FROM derivations").fetchall():
        if led_to == resolved.hex:
            level.add(key)
        for value in json.loads(document).get("inputs", {}).values():
            if isinstance(value, dict) and "derivation" in value:
                above[value["derivation"]].add(key)
    fallen: set[str] = set()
    while level:
        level = {key for below in level for key in above[below]} - fallen
        fallen |= level
    cursor.executemany("DELETE FROM derivations WHERE id = ?", [(key,) for key in sorted(fallen)])
    cursor.execute("DELETE FROM memos")
