# SPDX-License-Identifier: Apache-2.0
"""Records as lines: which numbers are times, lengths and sizes, and which stay as they are."""

from __future__ import annotations

import pytest

from derive.canonical import Json
from derive.records.folder import sound
from derive.records.show import lines_of
from support.reported import Records


def shown(key: str, value: Json) -> str:
    records = Records()
    records.historical("e1", figures=[{"name": "f", key: value}])
    (entry,) = sound({path.removeprefix("releases/"): data for path, data in records.files.items()}).entries
    return dict(lines_of(entry))[f"figures[0].{key}"]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("made_s", 1_795_000_000, "2026-11-18 11:06 UTC"),
        ("expires_s", 0, "1970-01-01 00:00 UTC"),
        ("made_s", 10**15, "1000000000000000"),
        ("value_tokens_per_s", 1413, "1413"),
        ("low_s", 61, "61"),
        ("facts_age_s", 61, "61.0 s"),
        ("duration_ns", 610_000_000_000, "10 min 10 s"),
        ("pool_bytes", 64_000_000, "64.0 MB"),
        ("value_ns", 12, "12"),
    ],
)
def test_a_number_is_written_by_its_key(key: str, value: int, text: str) -> None:
    assert shown(key, value) == text
