# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest

from derive.canonical import sha256
from derive.errors import Corrupt
from derive.store.closure_listing import read_listing
from derive.store.listings import dump_listing
from derive.trees.listing import DIRECTORY, Entry, File, Listing, Location, Symlink

BLOB = sha256(b"blob")
TREE = sha256(b"tree")
SIZES = {BLOB: 100}
TEXT = sha256(b"text")


def file(offset: int, stored: int, size: int) -> File:
    return File(executable=True, size=size, sha256=TEXT, at=Location(BLOB, offset, stored))


ENTRIES: dict[bytes, Entry] = {
    b"bin/run": file(0, 4, 4),
    b"caf\xe9": Symlink(b"../../etc/passwd"),
    b"empty": DIRECTORY,
}
LISTING = Listing.of(ENTRIES)


def test_what_a_store_writes_reads_back() -> None:
    found = read_listing(dump_listing(LISTING), TREE, SIZES)
    assert found == LISTING
    assert found[b"bin/run"].at == Location(BLOB, 0, 4)  # type: ignore[union-attr]


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(dump_listing(LISTING))
    return found


def changed(row: list[Any], *more: list[Any]) -> bytes:
    found = document()
    found["entries"] = [[""], ["bin"], row, *more]
    return json.dumps(found, separators=(",", ":")).encode()


def row(path: str = "bin/run", **changes: Any) -> list[Any]:
    names = ["path", "executable", "size", "sha256", "index", "offset", "stored", "method"]
    values = {**dict(zip(names, [path, 1, 4, TEXT.hex, 0, 0, 4, "raw"], strict=True)), **changes}
    return [values[name] for name in names]


def test_the_row_that_the_others_change_is_right() -> None:
    assert len(read_listing(changed(row()), TREE, SIZES)) == 3


@pytest.mark.parametrize(
    "data",
    [
        changed(row("../run")),
        changed(row("/bin/run")),
        changed(row("bin/../run")),
        changed(row("bin/./run")),
        changed(row("bin//run")),
        changed(row("bin/run%00")),
        changed(row("bin/caf\u00e9")),
        changed(row("bin/%2e")),
        changed(row(), row()),
        changed(row("bin/b"), row("bin/a")),
        changed(row(), row("bin/run/below")),
        changed(row("other/run")),
        changed(["bin/run", ""]),
        changed(["bin/run", "a%00b"]),
        changed(row(executable=2)),
        changed(row(size=-4, stored=-4)),
        changed(row(size=4.0)),
        changed(row(stored=4.0)),
        changed(row(offset=0.0)),
        changed(row(offset=True)),
        changed(row(offset=-1)),
        changed(row(offset=97)),
        changed(row(stored=101, size=101)),
        changed(row(size=5)),
        changed(row(method="other")),
        changed(row(method="deflate", stored=101)),
        changed(row(index=1)),
        changed(row(index=-1)),
        changed(row(index="0")),
        changed(row(sha256="x")),
        changed(["a", "b", "c"]),
        changed([]),
        json.dumps({**document(), "more": 1}).encode(),
        json.dumps({**document(), "derive": "listing/2"}, separators=(",", ":")).encode(),
        json.dumps(document()).encode(),
        dump_listing(LISTING) + b"\n",
        b"",
        b"[]",
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt, match=TREE.short):
        read_listing(data, TREE, SIZES)


def test_a_blob_that_the_closure_does_not_hold_is_refused() -> None:
    with pytest.raises(Corrupt, match="outside its blob"):
        read_listing(dump_listing(LISTING), TREE, {})


def test_a_blob_that_nothing_uses_may_not_be_named() -> None:
    found = document()
    found["blobs"].append(sha256(b"other").hex)
    with pytest.raises(Corrupt):
        read_listing(json.dumps(found, separators=(",", ":")).encode(), TREE, SIZES)
