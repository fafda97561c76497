# SPDX-License-Identifier: Apache-2.0
"""How a listing is kept in a file: docs/formats/store.md.

Core: no IO.

The file is a cache of facts that the tree digest covers, plus locations; it enters no identity itself.
"""

from __future__ import annotations

import json
from typing import assert_never

from derive.canonical import Digest, digest_document, escape, sha256, unescape
from derive.errors import Corrupt
from derive.trees.listing import DIRECTORY, Directory, Entry, File, Listing, Location, Symlink


def dump_listing(listing: Listing) -> bytes:
    """Write a listing whose files all have locations."""
    blobs: dict[Digest, int] = {}
    rows: list[list[str | int]] = []
    for path, entry in listing.items():
        name = escape(path)
        match entry:
            case Directory():
                rows.append([name])
            case Symlink(target):
                rows.append([name, escape(target)])
            case File(executable, size, sha256, Location(blob, offset, stored, method)):
                index = blobs.setdefault(blob, len(blobs))
                rows.append([name, int(executable), size, sha256.hex, index, offset, stored, method])
            case File():
                raise ValueError(f"{name} has no location")
            case _:
                assert_never(entry)
    document = {"derive": "listing/1", "blobs": [blob.hex for blob in blobs], "entries": rows}
    return json.dumps(document, separators=(",", ":")).encode()


def load_listing(data: bytes, name: str) -> Listing:
    """Read what :func:`dump_listing` wrote; raises Corrupt naming the tree when it is anything else."""
    try:
        document = json.loads(data)
        blobs = [Digest(text) for text in document["blobs"]]
        entries: dict[bytes, Entry] = {}
        for row in document["entries"]:
            if len(row) == 1:
                entries[unescape(row[0])] = DIRECTORY
            elif len(row) == 2:
                entries[unescape(row[0])] = Symlink(unescape(row[1]))
            else:
                path, executable, size, sha256, index, offset, stored, method = row
                location = Location(blobs[index], offset, stored, method)
                entries[unescape(path)] = File(bool(executable), size, Digest(sha256), location)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise Corrupt(
            f"the listing of tree {name} cannot be read",
            detail=[str(error)],
            hint="remove that listing file; the next run makes it again",
        ) from error
    return Listing(entries)


def checked_key(tree: Digest, data: bytes) -> Digest:
    """Return the key of the memo that says: from a listing file of these bytes, the tree's digest came out.

    A tree's digest is a function of its listing and of the blobs that it names: it is right while both are.
    """
    return digest_document({"derive": "listing-memo/1", "listing": sha256(data).hex, "tree": tree.hex})


def blobs_named(data: bytes) -> frozenset[Digest]:
    """Return the blobs that a sound listing file names, without reading its entries."""
    head, _, _ = data.partition(b',"entries":')
    return frozenset(Digest(text) for text in json.loads(head + b"}")["blobs"])


def blobs_of(listing: Listing) -> frozenset[Digest]:
    """Return the blobs that a listing's contents lie in."""
    return frozenset(file.at.blob for _, file in listing.files() if file.at is not None)
