# SPDX-License-Identifier: Apache-2.0
"""The store on disk: one folder, safe for concurrent processes and for being killed at any moment.

Edge: the file system and SQLite. Layout on docs/formats/store.md.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from derive.canonical import Digest, digest_document
from derive.errors import Corrupt, HostRefuses, Interrupted, Missing, expected_got
from derive.store.blobs import BlobFolder, FileWriter, Staging, damaged, sync_file_system, sync_folder, write_whole
from derive.store.database import Database
from derive.store.inflate import InflateError, inflate
from derive.store.layout import FOLDERS, State, state_of
from derive.store.listings import blobs_of, checked_key, dump_listing, load_listing
from derive.store.recent import RecentListings
from derive.store.space import is_full, keep_reserve, no_space
from derive.trees.facts import digest_again, facts_of
from derive.trees.listing import File, Listing, Location
from derive.trees.nar import nar_digest

_ASK_AGAIN_S = 0.05  # a lock cannot be waited for and given up at once


class LocalStore:
    """A store folder. Use it as a context manager; opening makes the folder and sweeps what the killed left.

    Opened for ``reading``, one that is not there yet is not made, and reads as one that holds nothing. Once it is
    open, ``is_absent`` says that, and ``read_only`` that nothing can be written: what only reads still works.

    Raises:
        HostRefuses: when it cannot be opened, when the folder is somebody else's, or when its disk becomes full.
    """

    def __init__(self, root: Path, *, reading: bool = False) -> None:
        self.root = root
        self._reading = reading
        self._listings = f"{root}/listings/"
        self.staging = Staging(root / "tmp")
        self._recent = RecentListings()
        self.database: Database = Database(root / "derive.sqlite")
        self._blobs = BlobFolder(root / "blobs" / "sha256", self.staging)
        self._protecting = False
        self.read_only = False
        self.is_absent = False

    def __enter__(self) -> Self:
        try:
            return self._enter()
        except OSError as error:
            if is_full(error, self.root):
                raise no_space(self.root) from error
            raise HostRefuses(
                f"the store cannot be opened: {(error.strerror or str(error)).lower()}",
                where=str(self.root),
                hint="name a folder that can be written with --store or DERIVE_STORE",
            ) from error

    def _enter(self) -> Self:
        state = state_of(self.root)
        self.is_absent = state is State.ABSENT and self._reading
        if self.is_absent:
            hint = "a build makes it; name another with --store, or DERIVE_STORE"
            self._refuse_writing(HostRefuses("there is no store here yet", where=str(self.root), hint=hint))
        elif state is State.MADE and not os.access(self.root, os.W_OK):
            hint = "name a store that you can write to: --store, or DERIVE_STORE"
            self._refuse_writing(HostRefuses("the store cannot be written", where=str(self.root), hint=hint))
        else:
            if state is not State.MADE:
                self._make()
            self.staging.sweep()
        return self

    def _make(self) -> None:
        for folder in FOLDERS:
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        with self.locked("index"):  # another process may have made the store meanwhile, and named an image
            if not (self.root / "index.json").exists():
                self.write_empty_index()
            keep_reserve(self.root)
            write_whole(self.root / "oci-layout", b'{"imageLayoutVersion":"1.0.0"}', self.staging)

    def _refuse_writing(self, refusal: HostRefuses) -> None:
        from derive.store.readonly import ReadOnlyDatabase

        self.read_only = True
        self.staging.refuse(refusal)
        self.database = ReadOnlyDatabase(self.root / "derive.sqlite")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.staging.settle()
        finally:
            self._blobs.close()
            self.database.close()
            self.staging.close()
        if is_full(error, self.root):
            raise no_space(self.root) from error

    def protect(self, derivations: Iterable[Digest]) -> None:
        """Keep from being collected, while this process has the store open, what it needs to build a closure.

        That is everything that these derivations gave before, and from now on every blob and tree that is asked for:
        what was found present stays so. Call it *before* asking what is present, so before planning.
        """
        self._protecting = True
        self.staging.hold("drv", derivations)

    def has_blob(self, digest: Digest) -> bool:
        """Say whether the blob is present."""
        if self._protecting:
            self._blobs.hold(digest)
        return self._blobs.has(digest)

    def blob_size(self, digest: Digest) -> int:
        """Return the blob's size in bytes."""
        return self._blobs.size(digest)

    def blob_path(self, digest: Digest) -> Path:
        """Return the blob's file."""
        return self._blobs.path(digest)

    def read_blob(self, digest: Digest, offset: int = 0, size: int | None = None) -> Iterator[bytes]:
        """Yield a slice of a blob."""
        return self._blobs.read(digest, offset, self._blobs.size(digest) - offset if size is None else size)

    def blob_writer(self) -> FileWriter:
        """Begin a new blob."""
        return self._blobs.writer()

    def has_tree(self, digest: Digest) -> bool:
        """Say whether a tree's listing and the blobs under it are present."""
        if self._protecting:
            self.staging.hold("tree", (digest,))
        if not os.path.exists(f"{self._listings}{digest.hex}.json"):  # noqa: PTH110 - asked as often as BlobFolder.has
            return False
        # Rows may be lost with a power cut, or with the database: then the listing itself is asked.
        blobs = self.database.tree_blobs(digest) or blobs_of(self.listing(digest))
        return all(self._blobs.has(blob) for blob in blobs)

    def listing(self, digest: Digest) -> Listing:
        """Return a tree's listing."""
        path = self._listing_path(digest)
        try:
            with path.open("rb") as file:
                facts = os.fstat(file.fileno())
                known = self._recent.get(digest, facts)
                return known or self._recent.put(digest, facts, load_listing(file.read(), digest.short))
        except FileNotFoundError:
            raise Missing(f"tree {digest.short} is not in the store", detail=[f"tree  {digest}"]) from None

    def add_listing(self, listing: Listing, *, by_facts: bool = False) -> Digest:
        """Hash a tree whose contents are in the store, and keep its listing.

        To hash a tree is to read all that is in it: one that is equal to an earlier one has its digest. ``by_facts``
        names the tree by its facts, for which nothing is read.
        """
        self._require_blobs(listing)
        digest = facts_of(listing) if by_facts else self._digest_of(listing)
        self._keep_listing(listing, digest)
        return digest

    def add_foreign(self, listing: Listing, tree: Digest) -> Digest:
        """Add a tree that another store has under a digest, all contents read; one with another digest is not kept."""
        self._require_blobs(listing)
        digest = digest_again(listing, tree, self.read)
        if digest == tree:
            self._keep_listing(listing, digest)
        return digest

    def _require_blobs(self, listing: Listing) -> None:
        blobs = blobs_of(listing)
        self.staging.hold("blob", blobs)
        for blob in blobs:
            if not self._blobs.has(blob):
                raise Missing(f"blob {blob.short}, which a new tree needs, is not in the store")

    def _keep_listing(self, listing: Listing, digest: Digest) -> None:
        blobs = blobs_of(listing)
        self.staging.hold("tree", (digest,))
        if self.has_tree(digest):
            return
        with self.locked(f"listing-{digest.hex}"):
            if not self.has_tree(digest):
                path = self._listing_path(digest)
                if path.exists():
                    # Away first with a listing whose blobs are gone: the new rows would vouch for it.
                    path.unlink()
                    sync_folder(path.parent)
                data = dump_listing(listing)
                self.database.add_tree(digest, blobs)
                self.database.set_memo(checked_key(digest, data), digest.hex)
                write_whole(path, data, self.staging)

    def _digest_of(self, listing: Listing) -> Digest:
        key = digest_document({"derive": "tree-memo/1", "facts": facts_of(listing).hex})
        known = self.database.memo(key)
        if known is not None:
            return Digest(known)
        digest = nar_digest(listing, lambda _, file: self.read(file))
        self.database.set_memo(key, digest.hex)
        return digest

    def read(self, file: File) -> Iterator[bytes]:
        """Yield a file's contents."""
        if file.at is None:
            raise Missing("a listed file has no location")
        if file.at.method == "deflate":
            return self._checked(file, file.at, self._inflate(file, file.at))
        if file.at.size != file.size:
            raise Corrupt("a file's contents have another size", detail=expected_got(file.size, file.at.size))
        return self._checked(file, file.at, self._blobs.read(file.at.blob, file.at.offset, file.at.size))

    def folder(self, digest: Digest) -> Path:
        """Return a tree as a read-only folder, written on first use. Processes that ask together write it once."""
        self.staging.hold("tree", (digest,))
        target = self.root / "trees" / digest.hex
        if not target.exists():
            if self.read_only and self.has_tree(digest):
                hint = "name a store that you can write to: --store, or DERIVE_STORE"
                message = f"tree {digest.short} is not unpacked, and the store cannot be written"
                raise HostRefuses(message, where=str(self.root), hint=hint)
            with self.locked(f"tree-{digest.hex}"):
                if not target.exists():
                    self._write_folder(digest, target)
        # Here, and not where it is written: the process that wrote it may have been killed before this.
        mode = target.lstat().st_mode
        if stat.S_ISDIR(mode) and mode & 0o222 and not self.read_only:
            target.chmod(0o555)
        return target

    @contextmanager
    def locked(self, name: str, cancel: threading.Event | None = None) -> Iterator[None]:
        """Hold a lock shared by all processes; the kernel drops it when its holder dies.

        Raises:
            Interrupted: when ``cancel`` is set while another process holds it.
        """
        self.staging.require_writable()
        path = self.root / "locks" / name
        while True:
            with path.open("ab") as lock:
                _wait_for(lock, cancel)
                try:
                    if os.fstat(lock.fileno()).st_ino != path.stat().st_ino:
                        continue
                except FileNotFoundError:
                    continue  # its last holder removed it: begin again with a new file
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return

    def log_path(self, name: str) -> Path:
        """Return where the log of that name is kept."""
        return self.root / "logs" / name

    def failed_path(self, derivation: Digest) -> Path:
        """Return where the folders of a build that failed are kept for a person, when they are."""
        return self.root / "failed" / derivation.hex

    def tag(self, name: str, manifest: Digest, size: int, media_type: str) -> None:
        """Name a manifest in the store's own OCI index, so that any OCI tool can read it from here."""
        entry = {
            "mediaType": media_type,
            "digest": str(manifest),
            "size": size,
            "annotations": {"org.opencontainers.image.ref.name": name},
        }
        self._rewrite_index(name, [entry])

    def untag(self, name: str) -> None:
        """Take a name out of the store's own OCI index; absence is no error."""
        self._rewrite_index(name, [])

    def write_empty_index(self) -> None:
        """Begin the store's own OCI index anew, without a name."""
        write_whole(self.root / "index.json", _index([]), self.staging)
        self.staging.settle()

    def _rewrite_index(self, name: str, entries: list[dict[str, object]]) -> None:
        with self.locked("index"):
            index = json.loads((self.root / "index.json").read_bytes())
            others = [m for m in index["manifests"] if m["annotations"]["org.opencontainers.image.ref.name"] != name]
            manifests = sorted(
                [*others, *entries], key=lambda m: str(m["annotations"]["org.opencontainers.image.ref.name"])
            )
            self.staging.settle()  # what is named lasts as long as its name
            write_whole(self.root / "index.json", _index(manifests), self.staging)
        self.staging.settle()

    def _write_folder(self, digest: Digest, target: Path) -> None:
        from derive.trees.materialise import materialise

        staged = self.staging.new_path()
        materialise(self, self.listing(digest), staged)
        sync_file_system(self.root)  # thousands of small files: one sync for all of them costs less than one for each
        staged.replace(target)
        sync_folder(target.parent)

    def _listing_path(self, digest: Digest) -> Path:
        return Path(f"{self._listings}{digest.hex}.json")

    def _checked(self, file: File, at: Location, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Pass contents on, and raise at their end when they are not those listed: a disk may have lost a bit."""
        hasher = hashlib.sha256()
        for piece in pieces:
            hasher.update(piece)
            yield piece
        if hasher.hexdigest() != file.sha256.hex:
            raise damaged(self._blobs.path(at.blob), file.sha256, hasher.hexdigest())

    def _inflate(self, file: File, at: Location) -> Iterator[bytes]:
        seen = 0
        try:
            for _, piece in inflate(self._blobs.read(at.blob, at.offset, at.size)):
                seen += len(piece)
                if seen > file.size:
                    break
                if piece:
                    yield piece
        except InflateError as error:
            raise Corrupt(f"a compressed file in blob {at.blob.short} cannot be read: it {error}") from error
        if seen != file.size:
            raise Corrupt("a compressed file has another size", detail=expected_got(file.size, seen))


def _wait_for(lock: IO[bytes], cancel: threading.Event | None) -> None:
    if cancel is None:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if cancel.wait(_ASK_AGAIN_S):
                raise Interrupted("stopped while another process builds the same") from None
        else:
            return


def _index(manifests: list[dict[str, object]]) -> bytes:
    return json.dumps({"schemaVersion": 2, "manifests": manifests}, indent=1).encode() + b"\n"
