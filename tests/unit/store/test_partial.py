# SPDX-License-Identifier: Apache-2.0
"""Blobs on their way: what has come stays, is hashed again, and is never taken for more than it is."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, Interrupted
from derive.store.local import LocalStore
from derive.store.memory import MemoryStore
from derive.store.partial import PartialWriter, partial_writer

BODY = bytes(range(256)) * 2048
NAME = sha256(BODY)
AGAIN = 1 << 16


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as opened:
        yield opened


def begin(
    store: LocalStore, *, digest: Digest = NAME, size: int | None = len(BODY), fresh: bool = False
) -> PartialWriter:
    writer = partial_writer(store, digest, size=size, wait=lambda _: None, fresh=fresh)
    assert isinstance(writer, PartialWriter)
    return writer


def file(store: LocalStore) -> Path:
    return store.root / "partial" / NAME.hex


def leave(store: LocalStore, data: bytes) -> None:
    with begin(store) as writer:
        writer.write(data)


def whole(store: LocalStore) -> bool:
    return b"".join(store.read_blob(NAME)) == BODY


def test_a_blob_written_at_once_is_a_blob_and_nothing_stays_beside_it(store: LocalStore) -> None:
    with begin(store) as writer:
        writer.write(BODY)
        assert writer.commit(NAME) == NAME
    assert whole(store)
    assert store.blob_path(NAME).stat().st_mode & 0o777 == 0o444
    assert list((store.root / "partial").iterdir()) == []


def test_what_came_is_gone_on_with_but_for_its_end(store: LocalStore) -> None:
    leave(store, BODY[:300_000])
    assert not store.has_blob(NAME)
    with begin(store) as writer:
        assert writer.size == 300_000 - AGAIN
        writer.write(BODY[writer.size :])
        writer.commit(NAME)
    assert whole(store)


@pytest.mark.parametrize("count", [0, 1, AGAIN])
def test_a_little_is_not_worth_going_on_with(store: LocalStore, count: int) -> None:
    leave(store, BODY[:count])
    assert file(store).exists() == bool(count)
    with begin(store) as writer:
        assert writer.size == 0


def test_all_of_it_still_asks_for_the_end(store: LocalStore) -> None:
    leave(store, BODY)
    with begin(store) as writer:
        assert writer.size == len(BODY) - AGAIN


def test_tries_in_vain_cost_nothing_of_what_came(store: LocalStore) -> None:
    leave(store, BODY[:300_000])
    for _ in range(3):
        with begin(store):
            pass
    assert file(store).read_bytes() == BODY[:300_000]


@pytest.mark.parametrize("size", [len(BODY), None])
def test_a_file_longer_than_the_blob_is_begun_anew(store: LocalStore, size: int | None) -> None:
    leave(store, BODY + b"more")
    with begin(store, size=size) as writer:
        assert writer.size == (0 if size else len(BODY) + 4 - AGAIN)
    assert file(store).exists() == (size is None)


def test_a_fresh_beginning_forgets_what_came(store: LocalStore) -> None:
    leave(store, bytes(300_000))
    with begin(store, fresh=True) as writer:
        assert writer.size == 0
        writer.write(BODY)
        writer.commit(NAME)
    assert whole(store)


def test_wrong_bytes_are_corrupt_and_none_of_them_stay(store: LocalStore) -> None:
    leave(store, bytes(300_000))
    with begin(store) as writer:
        writer.write(BODY[writer.size :])
        with pytest.raises(Corrupt) as caught:
            writer.commit(NAME)
    assert caught.value.detail[0] == f"expected  {NAME}"
    assert not file(store).exists()
    assert not store.has_blob(NAME)


@pytest.mark.parametrize("count", [1000, 270_000])
def test_bytes_of_a_wrong_file_are_withdrawn_and_those_before_them_stay(store: LocalStore, count: int) -> None:
    leave(store, BODY[:300_000])
    with begin(store) as writer:
        before = writer.size
        writer.write(bytes(count))
        writer.withdraw(before)
    assert file(store).read_bytes() == BODY[: 300_000 if count == 1000 else before]


def test_a_damaged_blob_is_replaced_by_the_right_bytes(store: LocalStore) -> None:
    target = store.root / "blobs" / "sha256" / NAME.hex
    target.write_bytes(bytes(len(BODY)))
    with begin(store) as writer:
        writer.write(BODY)
        writer.commit(NAME)
    assert whole(store)


def test_what_is_whole_elsewhere_by_now_leaves_nothing(store: LocalStore) -> None:
    leave(store, BODY[:300_000])
    with store.blob_writer() as other:
        other.write(BODY)
        other.commit()
    with begin(store):
        pass
    assert not file(store).exists()


def test_a_full_disk_keeps_what_leaves_the_store_some_room(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("derive.store.partial._GIVEN_BACK", 100_000)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    writer = begin(store).__enter__()
    writer.write(BODY)
    writer.__exit__(OSError, full, None)
    assert file(store).read_bytes() == BODY[: len(BODY) - 100_000]


def test_a_file_that_was_whole_when_its_process_was_killed_is_taken_up(store: LocalStore) -> None:
    leave(store, BODY)
    file(store).chmod(0o444)
    with begin(store) as writer:
        writer.write(BODY[writer.size :])
        writer.commit(NAME)
    assert whole(store)


def test_a_link_in_its_place_is_not_followed(store: LocalStore, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"kept")
    file(store).parent.mkdir()
    file(store).symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"), begin(store):
        pass
    assert target.read_bytes() == b"kept"


def test_the_second_thread_waits_for_the_first_and_finds_the_blob(store: LocalStore) -> None:
    waited = threading.Event()
    found: list[bool] = []

    def second() -> None:
        with partial_writer(store, NAME, size=len(BODY), wait=lambda _: waited.set()) as writer:
            found.append(store.has_blob(NAME))
            assert writer.size == 0

    with begin(store) as writer:
        thread = threading.Thread(target=second)
        thread.start()
        assert waited.wait(5)
        writer.write(BODY)
        writer.commit(NAME)
    thread.join(5)
    assert found == [True]
    assert list((store.root / "partial").iterdir()) == []


def test_waiting_ends_when_it_is_no_longer_worth_it(store: LocalStore) -> None:
    def stop(_: float) -> None:
        raise Interrupted("stopped")

    with begin(store), pytest.raises(Interrupted), partial_writer(store, NAME, size=1, wait=stop):
        pass


KILLED = """
import os, signal, sys
from pathlib import Path
from derive.canonical import Digest
from derive.store.local import LocalStore
from derive.store.partial import partial_writer
with LocalStore(Path(sys.argv[1])) as store:
    with partial_writer(store, Digest(sys.argv[2]), size=None, wait=lambda _: None) as writer:
        writer.write(bytes(range(256)) * 1400)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_what_it_wrote_and_no_lock(store: LocalStore) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(store.root), NAME.hex], check=False)
    assert done.returncode == -9
    assert file(store).read_bytes() == BODY[: 256 * 1400]
    with file(store).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with begin(store) as writer:
        assert writer.size == 256 * 1400 - AGAIN


def test_a_store_in_memory_begins_each_time() -> None:
    store = MemoryStore()
    with partial_writer(store, NAME, size=None, wait=lambda _: None) as writer:
        writer.write(BODY[:300_000])
    with partial_writer(store, NAME, size=None, wait=lambda _: None) as writer:
        assert writer.size == 0
