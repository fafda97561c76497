# SPDX-License-Identifier: Apache-2.0
"""Compares a tree that is unpacked with its listing: every path, type, mode, size and time.

Edge: the file system.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import assert_never

from derive.canonical import EPOCH, Digest, escape
from derive.store.hashing import Expected
from derive.trees.listing import Directory, Entry, File, Listing, Symlink


def folder_differs(folder: Path, listing: Listing) -> str:
    """Say the first thing in which a folder differs from its listing, contents left out, or nothing."""
    top = os.fsencode(folder)
    found = dict(_walk(top))
    for path in sorted(found.keys() ^ listing.keys()):
        return f"{shown(path)} is {'no part of the tree' if path in found else 'absent'}"
    for path, entry in listing.items():
        what = _differs(top, path, entry, found[path])
        if what:
            return f"{shown(path)}: {what}"
    return ""


def files_in(folder: Path, listing: Listing, tree: Digest) -> Iterator[Expected]:
    """Yield each file that a folder is to hold, with what it is to be."""
    top = os.fsencode(folder)
    return (Expected(_place(top, path), file.sha256, file.size, tree) for path, file in listing.files())


def shown(path: bytes) -> str:
    """Write a path inside a tree for people."""
    return escape(path) or "the top"


def _walk(top: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    try:
        facts = os.lstat(top)
    except FileNotFoundError:
        return
    yield b"", facts
    waiting = [b""] if stat.S_ISDIR(facts.st_mode) else []
    while waiting:
        above = waiting.pop()
        with os.scandir(_place(top, above)) as items:
            for item in items:
                path = above + b"/" + item.name if above else item.name
                facts = item.stat(follow_symlinks=False)
                if stat.S_ISDIR(facts.st_mode):
                    waiting.append(path)
                yield path, facts


def _place(top: bytes, path: bytes) -> bytes:
    return top + b"/" + path if path else top


def _differs(top: bytes, path: bytes, entry: Entry, facts: os.stat_result) -> str:
    """Say how a path differs from its entry, its contents left out."""
    kind, mode = stat.S_IFMT(facts.st_mode), stat.S_IMODE(facts.st_mode)
    match entry:
        case Directory():
            right = kind == stat.S_IFDIR and (mode == 0o555 or (not path and mode == 0o755))
        case Symlink(target):
            if kind != stat.S_IFLNK:
                return "no link any more"
            right = os.readlink(_place(top, path)) == target  # noqa: PTH115 - paths are bytes
        case File(executable, size):
            if kind == stat.S_IFREG and facts.st_size != size:
                return f"its size is {facts.st_size}, not {size}"
            right = kind == stat.S_IFREG and mode == (0o555 if executable else 0o444) and facts.st_nlink == 1
        case _:
            assert_never(entry)
    if not right:
        return "its type, mode or target differs"
    return "" if facts.st_mtime_ns == EPOCH * 10**9 else "its time differs"
