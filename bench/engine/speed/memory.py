# SPDX-License-Identifier: Apache-2.0
"""How much memory the engine takes for a very large file, and for very many files.

Edge: processes, a store.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from derive.archives.unpack import unpack_tar
from derive.canonical import Digest
from derive.images.encoding import Encoding
from derive.images.layer import write_layer
from derive.images.modes import ModeTable
from derive.store.local import LocalStore
from derive.trees.compose import compose
from derive.trees.materialise import remove_folder
from derive.trees.pack import NewFile, add_members
from speed.measure import in_child
from speed.scratch import Bench
from speed.table import AtMost, Row, Size

GROUP = "memory"
LARGE_BYTES = 2 << 30
FILES = 60_000
"""As many as a closure of wheels with a machine learning framework has."""
LIMIT = AtMost(Size(300_000_000))


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Measure the peak of a process that does each; zeros are enough, no reader knows of holes."""
    free = shutil.disk_usage(setting.scratch).free
    if free < 2 * LARGE_BYTES:
        note(f"memory: not measured, {free >> 20} MiB free are not enough for a file of {LARGE_BYTES >> 20} MiB")
        return []
    root = setting.new_path("large")
    archive = _add_archive(root)
    unpacking, tree = in_child(lambda: _unpack(root, archive))
    writing, _ = in_child(lambda: _write(root, Digest(str(tree)), setting.jobs))
    many, _ = in_child(lambda: _many(root, setting.jobs))
    remove_folder(root)
    size = f"{LARGE_BYTES >> 30} GiB"
    peaks = {
        f"peak, unpacking a file of {size}": unpacking,
        f"peak, writing it into a layer, {setting.jobs} jobs": writing,
        f"peak, a tree of {FILES:,} files, united with itself, into a layer": many,
    }
    return [Row(group=GROUP, what=what, amount=Size(sample.peak_bytes), target=LIMIT) for what, sample in peaks.items()]


def _add_archive(root: Path) -> Digest:
    """Make a store with a tar archive of one large file, which takes no space: it is a hole."""
    member = tarfile.TarInfo("large")
    member.size = LARGE_BYTES
    head = member.tobuf(tarfile.USTAR_FORMAT)
    hasher = hashlib.sha256(head)
    zeros = bytes(1 << 20)
    for _ in range(LARGE_BYTES >> 20):
        hasher.update(zeros)
    hasher.update(zeros[: 2 * tarfile.BLOCKSIZE])
    with LocalStore(root):
        path = root / "blobs" / "sha256" / hasher.hexdigest()
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + LARGE_BYTES + 2 * tarfile.BLOCKSIZE)
    return Digest(hasher.hexdigest())


def _unpack(root: Path, archive: Digest) -> str:
    with LocalStore(root) as store:
        return store.add_listing(unpack_tar(store, archive, name="large.tar").listing).hex


def _write(root: Path, tree: Digest, jobs: int) -> int:
    with LocalStore(root) as store:
        return write_layer(store, store.listing(tree), ModeTable.of([]), Encoding(), jobs=jobs).size


def _many(root: Path, jobs: int) -> int:
    def members() -> Iterator[tuple[bytes, NewFile]]:
        for number in range(FILES):
            path = b"usr/lib/python3/dist-packages/package%03d/inner%02d/module%06d.py" % (
                number % 200,
                number % 37,
                number,
            )
            yield path, NewFile(executable=False, chunks=[b"%d" % number])

    with LocalStore(root) as store:
        tree = store.add_listing(add_members(store, members()))
        united = compose([("one", store.listing(tree)), ("other", store.listing(tree))], {})
        return write_layer(store, united, ModeTable.of([]), Encoding(), jobs=jobs).size
