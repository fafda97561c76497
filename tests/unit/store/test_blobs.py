# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, Missing
from derive.store.blobs import BlobFolder, Staging, sync_folder, write_whole
from derive.store.protocol import CHUNK

LIVES = """
import sys
from pathlib import Path
from derive.store.blobs import Staging
staging = Staging(Path(sys.argv[1]))
staging.new_path().write_bytes(b"unfinished")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def staging(tmp_path: Path) -> Iterator[Staging]:
    staging = Staging(tmp_path / "tmp")
    yield staging
    staging.close()


@pytest.fixture
def blobs(tmp_path: Path, staging: Staging) -> Iterator[BlobFolder]:
    (tmp_path / "blobs").mkdir()
    folder = BlobFolder(tmp_path / "blobs", staging)
    yield folder
    folder.close()


def add(blobs: BlobFolder, data: bytes) -> Digest:
    with blobs.writer() as writer:
        writer.write(data)
        return writer.commit()


def staged(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "tmp").rglob("*") if path.suffix != ".lock" and not path.is_dir()]


def open_below(folder: Path) -> int:
    """Count this process's open files below a folder."""
    links = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum(path.readlink().is_relative_to(folder) for path in links)


def test_nothing_touches_the_disk_before_it_is_needed(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "tmp")
    BlobFolder(tmp_path / "blobs", staging).close()
    staging.close()
    assert list(tmp_path.iterdir()) == []


def test_every_path_is_new_and_in_one_folder(tmp_path: Path, staging: Staging) -> None:
    paths = {staging.new_path() for _ in range(100)}
    assert len(paths) == 100
    assert len({path.parent for path in paths}) == 1
    assert not any(path.exists() for path in paths)
    assert next(iter(paths)).parent.parent == tmp_path / "tmp"


def test_closing_drops_what_was_staged_and_the_lock(tmp_path: Path, staging: Staging) -> None:
    inner = staging.new_path()
    inner.mkdir()
    (inner / "file").write_bytes(b"x")
    inner.chmod(0o555)
    staging.close()
    assert list((tmp_path / "tmp").iterdir()) == []
    staging.close()


def test_staging_can_be_used_again_after_closing(staging: Staging) -> None:
    before = staging.new_path()
    staging.close()
    after = staging.new_path()
    assert after.parent.exists()
    assert after.parent != before.parent


def test_sweeping_spares_the_living_and_removes_what_the_killed_left(tmp_path: Path, staging: Staging) -> None:
    mine = staging.new_path()
    mine.write_bytes(b"mine")
    other = subprocess.Popen(
        [sys.executable, "-c", LIVES, tmp_path / "tmp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        staging.sweep()
        assert sorted(path.read_bytes() for path in staged(tmp_path)) == [b"mine", b"unfinished"]
        other.kill()
        other.wait()
        staging.sweep()
        assert staged(tmp_path) == [mine]
        assert len(list((tmp_path / "tmp").glob("*.lock"))) == 1


def test_a_lock_that_a_sweeper_took_away_before_it_was_held_is_made_again(
    tmp_path: Path, staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock
    calls: list[int] = []

    def flock(file: int, operation: int) -> None:
        if not calls:
            for path in (tmp_path / "tmp").iterdir():
                path.unlink()
        calls.append(operation)
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    folder = staging.new_path().parent
    assert len(calls) == 2
    assert folder.with_suffix(".lock").exists()


def test_sweeping_a_store_that_never_staged_is_nothing(tmp_path: Path) -> None:
    Staging(tmp_path / "absent").sweep()


def test_a_blob_is_a_read_only_file_named_by_its_hash_whatever_the_umask(tmp_path: Path, blobs: BlobFolder) -> None:
    for umask in (0o077, 0o022, 0o000):
        before = os.umask(umask)
        try:
            digest = add(blobs, b"umask %o" % umask)
        finally:
            os.umask(before)
        path = blobs.path(digest)
        assert path == tmp_path / "blobs" / digest.hex
        assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert staged(tmp_path) == []


def test_a_blob_that_is_there_already_is_not_written_again(tmp_path: Path, blobs: BlobFolder) -> None:
    inode = blobs.path(add(blobs, b"same")).stat().st_ino
    assert blobs.path(add(blobs, b"same")).stat().st_ino == inode
    assert staged(tmp_path) == []


def test_a_dropped_or_refused_blob_leaves_no_file(tmp_path: Path, blobs: BlobFolder) -> None:
    with blobs.writer() as writer:
        writer.write(b"x" * 3 * CHUNK)
    with blobs.writer() as writer:
        writer.write(b"wrong")
        with pytest.raises(Corrupt):
            writer.commit(sha256(b"right"))
    assert staged(tmp_path) == []
    assert list((tmp_path / "blobs").iterdir()) == []


def test_thousands_of_blobs_are_read_with_few_files_open(tmp_path: Path, blobs: BlobFolder) -> None:
    digests = [sha256(b"%d" % index) for index in range(600)]
    for index, digest in enumerate(digests):
        (tmp_path / "blobs" / digest.hex).write_bytes(b"%d" % index)
    for index, digest in enumerate(digests):
        assert b"".join(blobs.read(digest, 0, len(b"%d" % index))) == b"%d" % index
    assert 0 < open_below(tmp_path / "blobs") <= 256


def test_closing_closes_every_file(tmp_path: Path, blobs: BlobFolder) -> None:
    list(blobs.read(add(blobs, b"text"), 0, 4))
    blobs.close()
    assert open_below(tmp_path / "blobs") == 0


def test_a_blob_that_is_shorter_than_its_slice_is_corrupt(blobs: BlobFolder) -> None:
    digest = add(blobs, b"12345")
    with pytest.raises(Corrupt) as caught:
        list(blobs.read(digest, 0, 9))
    assert caught.value.detail == ("expected  9 bytes", "got       5 bytes")


def test_an_absent_blob_is_named_whole(blobs: BlobFolder) -> None:
    with pytest.raises(Missing) as caught:
        blobs.path(sha256(b""))
    assert sha256(b"").short in caught.value.message
    assert str(sha256(b"")) in caught.value.detail[0]


def test_threads_write_the_same_and_different_blobs_at_once(tmp_path: Path, blobs: BlobFolder) -> None:
    failures: list[BaseException] = []

    def work(own: int) -> None:
        try:
            for index in range(10):
                assert add(blobs, b"shared %d" % index) == sha256(b"shared %d" % index)
                add(blobs, b"own %d %d" % (own, index))
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    found = {path.name: path.read_bytes() for path in (tmp_path / "blobs").iterdir()}
    assert len(found) == 10 + 4 * 10
    assert all(sha256(data).hex == name for name, data in found.items())
    assert staged(tmp_path) == []


def test_a_small_file_is_replaced_whole(tmp_path: Path, staging: Staging) -> None:
    target = tmp_path / "index.json"
    write_whole(target, b"old", staging)
    with target.open("rb") as reader:
        write_whole(target, b"newer", staging)
        assert reader.read() == b"old"
    assert target.read_bytes() == b"newer"
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert staged(tmp_path) == []


def test_only_a_folder_can_be_synced_as_one(tmp_path: Path) -> None:
    sync_folder(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        sync_folder(tmp_path / "file")
