# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.errors import Missing
from derive.store.memory import MemoryStore


def test_a_blob_in_memory_is_no_file() -> None:
    store = MemoryStore()
    with store.blob_writer() as writer:
        writer.write(b"text")
        digest = writer.commit()
    with pytest.raises(Missing, match="in memory"):
        store.blob_path(digest)


def test_two_stores_share_nothing() -> None:
    one, other = MemoryStore(), MemoryStore()
    with one.blob_writer() as writer:
        digest = writer.commit()
    assert one.has_blob(digest)
    assert not other.has_blob(digest)
