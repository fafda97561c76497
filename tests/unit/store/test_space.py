# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
from pathlib import Path

import pytest

from derive.errors import HostRefuses
from derive.store import space
from derive.store.local import LocalStore
from derive.store.space import free_bytes, give_up_reserve, is_full, keep_reserve


def full(place: Path | None = None) -> OSError:
    return OSError(errno.ENOSPC, "No space left on device", *([] if place is None else [str(place)]))


def test_room_is_told_also_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert abs(free_bytes(tmp_path / "a" / "b") - free_bytes(tmp_path)) < 1 << 30


def test_an_error_about_another_place_is_not_about_the_store(tmp_path: Path) -> None:
    root = tmp_path / "store"
    assert is_full(full(root / "blobs"), root)
    assert not is_full(full(tmp_path / "elsewhere"), root)
    assert not is_full(OSError(errno.EACCES, "no", str(root)), root)
    assert not is_full(None, root)


def test_an_error_that_names_no_place_is_about_the_store_when_its_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "free_bytes", lambda _: 1 << 40)
    assert not is_full(full(), tmp_path)
    monkeypatch.setattr(space, "free_bytes", lambda _: 0)
    assert is_full(full(), tmp_path)


def test_a_full_disk_is_told_with_the_store_and_the_next_step(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with pytest.raises(HostRefuses, match=f"no space left in the store {root}") as caught, LocalStore(root):
        raise full(root / "derive.sqlite")
    assert "derive store gc" in str(caught.value.hint)


def test_the_reserve_is_given_up_only_where_there_is_no_other_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_reserve(tmp_path)
    reserve = tmp_path / "reserve"
    assert reserve.stat().st_size == 1 << 20
    give_up_reserve(tmp_path)
    assert reserve.exists()
    monkeypatch.setattr(space, "free_bytes", lambda _: 4096)
    give_up_reserve(tmp_path)
    assert not reserve.exists()
    give_up_reserve(tmp_path)
