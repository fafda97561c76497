# SPDX-License-Identifier: Apache-2.0
"""Makes a store smaller without losing anything: packs are compressed file by file, and the database is tidied.

Edge: the store, threads.

Measured on an image's store, files that lie in several packs, or in several unpacked trees, are two bytes in a
hundred; compressing packs saves two thirds of them, and makes reading them three times as slow. So contents are not
linked to each other: names that share an inode would show in a sandbox, and what a build sees must not depend on what
was done to a store. Only packs that the store made itself are touched, never an artifact or a layer; a tree's digest
does not say where its contents lie.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from derive.canonical import Digest, Json, sha256
from derive.derivations.model import FlatOutput
from derive.errors import Corrupt, DeriveError, Unavailable
from derive.store.blobs import write_whole
from derive.store.collect import folder_size, move_aside
from derive.store.inventory import Inventory, files_of, take_inventory
from derive.store.listings import blobs_of, checked_key, dump_listing
from derive.store.local import LocalStore
from derive.trees.listing import Entry, File, Listing, Location
from derive.trees.materialise import remove_folder

_LEVEL = 6
_LARGEST = 64 << 20  # bytes of a file that is compressed: it is held in memory whole
_AHEAD = 32 << 20
_WORTH = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Bytes before and after, of packs, of the database and of unpacked trees; ``packs`` counts those rewritten."""

    packs: int
    pack_bytes: tuple[int, int]
    database_bytes: tuple[int, int]
    folder_bytes: tuple[int, int]

    @property
    def size(self) -> int:
        """Bytes that came free."""
        pairs = (self.pack_bytes, self.database_bytes, self.folder_bytes)
        return sum(before - after for before, after in pairs)

    def document(self) -> dict[str, Json]:
        """Return it as a record's body."""
        pairs = {"packs": self.pack_bytes, "database": self.database_bytes, "unpacked_trees": self.folder_bytes}
        found: dict[str, Json] = {"packs_rewritten": self.packs, "freed_bytes": self.size}
        for name, (before, after) in pairs.items():
            found |= {f"{name}_before_bytes": before, f"{name}_after_bytes": after}
        return found


def optimise(store: LocalStore, *, jobs: int, folders: bool = False) -> Saved:
    """Make a store smaller; ``folders`` also removes unpacked trees, which are made again when they are needed.

    Raises:
        Unavailable: when another process is at work: it may be reading what would be moved.
        HostRefuses: when the store cannot be written.
    """
    trash = store.staging.new_path()
    with store.locked("collect"), store.staging.alone() as held:
        if held.processes > 1:
            raise Unavailable("another process is at work in this store", hint="try again when it has ended")
        inventory = take_inventory(store)
        rewriting = _Rewriting(store=store, inventory=inventory, jobs=jobs)
        packs, sizes = rewriting.run()
        trash.mkdir()
        gone = _drop_folders(store, inventory, trash) if folders else (0, 0)
        for pack in packs:
            store.blob_path(pack).rename(trash / pack.hex)
    remove_folder(trash)
    return Saved(packs=len(packs), pack_bytes=sizes, database_bytes=_tidy(store), folder_bytes=gone)


@dataclass(slots=True, kw_only=True)
class _Rewriting:
    """Packs on their way to smaller ones. ``placed`` says where each content lies now that was written here."""

    store: LocalStore
    inventory: Inventory
    jobs: int
    placed: dict[Digest, Location] = field(default_factory=dict)

    def run(self) -> tuple[list[Digest], tuple[int, int]]:
        """Rewrite what is worth it; return the packs that nothing needs any more, and bytes before and after."""
        listings = {tree: self.store.listing(tree) for tree in sorted(self.inventory.listings) if self._is_whole(tree)}
        contents = self._contents(listings.values())
        moved: dict[tuple[Digest, int, int], Location] = {}
        done: list[Digest] = []
        before = after = 0
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="optimise") as pool:
            for pack in sorted(contents):
                files = [file for _, file in sorted(contents[pack].items())]
                places = self._pack(pack, files, pool)
                if places is None:
                    continue
                moved |= {_key(file): place for file, place in zip(files, places[0], strict=True)}
                done.append(pack)
                before, after = before + self.inventory.blobs[pack], after + places[1]
        self.store.staging.settle()
        for tree, listing in listings.items():
            self._move(tree, listing, moved)
        self.store.staging.settle()
        return done, (before, after)

    def _is_whole(self, tree: Digest) -> bool:
        try:
            return self.inventory.has_tree(tree) and self.store.listing(tree) is not None
        except Corrupt:  # for verify to tell
            return False

    def _contents(self, listings: Iterable[Listing]) -> dict[Digest, dict[tuple[int, int], File]]:
        """Return the files that lie plain in each pack, by place; packs are blobs that no step gave as an output."""
        given = {o.digest for outputs in self.inventory.outputs.values() for o in outputs if isinstance(o, FlatOutput)}
        given |= {root.digest for root in self.inventory.roots}
        found: dict[Digest, dict[tuple[int, int], File]] = {}
        squeezed: set[Digest] = set()
        for listing in listings:
            for _, file in listing.files():
                at = file.at
                if at is None or at.blob in given:
                    continue
                if at.method != "raw":
                    squeezed.add(at.blob)
                found.setdefault(at.blob, {})[at.offset, at.size] = file
        return {pack: files for pack, files in found.items() if pack not in squeezed and pack in self.inventory.blobs}

    def _pack(self, pack: Digest, files: list[File], pool: ThreadPoolExecutor) -> tuple[list[Location], int] | None:
        """Write a pack's files anew; return where each lies and the new bytes, None where it is not worth it."""
        places: list[Location | Digest] = []
        new: dict[Digest, tuple[int, int, bool]] = {}
        try:
            with self.store.blob_writer() as writer:
                for file, squeezed in self._squeezed(files, pool):
                    known = self.placed.get(file.sha256)
                    if known is None and file.sha256 not in new:
                        start = writer.size
                        for piece in self.store.read(file) if squeezed is None else (squeezed,):
                            writer.write(piece)
                        new[file.sha256] = (start, writer.size - start, squeezed is not None)
                    places.append(known or file.sha256)
                if writer.size > _WORTH * self.inventory.blobs[pack]:
                    return None
                size = writer.size
                blob = writer.commit() if size else None
        except DeriveError:  # damaged: for verify to tell
            return None
        if blob is not None:
            for digest, (offset, stored, is_deflate) in new.items():
                self.placed[digest] = Location(blob, offset, stored, "deflate" if is_deflate else "raw")
        return [self.placed[place] if isinstance(place, Digest) else place for place in places], size

    def _squeezed(self, files: list[File], pool: ThreadPoolExecutor) -> Iterator[tuple[File, bytes | None]]:
        """Yield each file with its deflate stream, or None where it is to stay plain; some of them ahead, not all."""
        window: list[File] = []
        size = 0
        for file in files:
            window.append(file)
            size += file.size
            if size >= _AHEAD:
                yield from zip(window, pool.map(self._squeeze, window), strict=True)
                window, size = [], 0
        yield from zip(window, pool.map(self._squeeze, window), strict=True)

    def _squeeze(self, file: File) -> bytes | None:
        """Return a file's deflate stream, or None where it is not worth it."""
        import deflate

        if not 0 < file.size <= _LARGEST:
            return None
        small = bytes(deflate.deflate_compress(b"".join(self.store.read(file)), _LEVEL))
        if len(small) > _WORTH * file.size:
            return None
        if sha256(zlib.decompress(small, wbits=-15)) != file.sha256:
            raise Corrupt("a compressed file does not read back")
        return small

    def _move(self, tree: Digest, listing: Listing, moved: dict[tuple[Digest, int, int], Location]) -> None:
        """Write a tree's listing with the new places; at every moment the old or the new one is there and right."""
        entries: dict[bytes, Entry] = {path: _moved(entry, moved) for path, entry in listing.items()}
        if all(entry is listing[path] for path, entry in entries.items()):
            return
        database, path = self.store.database, self.store.root / "listings" / f"{tree.hex}.json"
        known = database.memo(checked_key(tree, path.read_bytes())) is not None
        new = Listing(entries)
        data = dump_listing(new)
        database.add_tree(tree, ())  # without rows the listing itself is asked
        write_whole(path, data, self.store.staging)
        database.add_tree(tree, blobs_of(new))
        if known:
            database.set_memo(checked_key(tree, data), tree.hex)


def _key(file: File) -> tuple[Digest, int, int]:
    assert file.at is not None
    return (file.at.blob, file.at.offset, file.at.size)


def _moved(entry: Entry, moved: dict[tuple[Digest, int, int], Location]) -> Entry:
    if not isinstance(entry, File) or entry.at is None:
        return entry
    place = moved.get(_key(entry))
    return entry if place is None else replace(entry, at=place)


def _drop_folders(store: LocalStore, inventory: Inventory, trash: Path) -> tuple[int, int]:
    size = 0
    for tree in sorted(inventory.folders):
        folder = store.root / "trees" / tree.hex
        size += folder_size(folder)
        move_aside(folder, trash / f"tree-{tree.hex}")
    return size, 0


def _tidy(store: LocalStore) -> tuple[int, int]:
    """Write the database anew without its holes; return its bytes before and after."""
    before = _database_bytes(store.root)
    with store.database.cursor() as cursor:
        cursor.execute("VACUUM")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return before, _database_bytes(store.root)


def _database_bytes(root: Path) -> int:
    return sum(size for name, size in files_of(root).items() if name.startswith("derive.sqlite"))
