# SPDX-License-Identifier: Apache-2.0
"""A folder that was added before is recognised by its paths' facts alone: only what changed is read again.

Edge: the file system, the clock, a store.

What is remembered of a path is what a change must change: size, inode, mode and both times. A file that was changed
less than two seconds before it was looked at is not trusted: another change within the same tick of the file system's
clock would look the same. It is read again each time until it has settled.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import time_ns
from typing import TypeAlias

from derive.canonical import Digest, escape, unescape
from derive.errors import Corrupt, Missing
from derive.store.blobs import write_whole
from derive.store.local import LocalStore
from derive.trees.listing import File
from derive.trees.pack import Member, NewFile, add_members
from derive.trees.scan import scan_folder

FOLDER = "scans"
"""Where what was seen of folders lies in a store."""

_SETTLED_NS = 2 * 10**9
_FORMAT = "scan/1"

Facts: TypeAlias = tuple[int, int, int, int, int]
"""Of one path: mode, size, modification and change time in nanoseconds, inode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What a folder was: the tree that it gave, and the digest of all its facts, None where a path had not settled.

    ``paths`` is the text in which the facts of each settled path stand.
    """

    tree: Digest
    facts: Digest | None
    paths: bytes


def add_folder_cached(store: LocalStore, folder: Path, *, but: Collection[bytes] = ()) -> Digest:
    """Add a folder as a tree, and return the tree's digest; a folder that is as it was costs its ``stat`` calls.

    ``but`` are names at the top that are left out, such as ``.git``.

    Raises:
        InputErrors: as :func:`derive.trees.scan.scan_folder`.
        OSError: when the folder cannot be read.
    """
    began = time_ns()
    found = dict(_survey(folder, frozenset(but)))
    facts = _digest(found)
    memory = _memory(store, folder, but)
    seen = _recall(memory)
    if seen is not None and seen.facts == facts and store.has_tree(seen.tree):
        return seen.tree
    known = {} if seen is None else _known(store, seen, found)
    settled = {path: one for path, one in found.items() if max(one[2], one[3]) < began - _SETTLED_NS}
    with scan_folder(folder) as scan:
        members = _members(scan.members(), known, frozenset(but))
        tree = store.add_listing(add_members(store, members))
    _remember(store, memory, tree, facts if len(settled) == len(found) else None, settled)
    return tree


def _survey(folder: Path, but: frozenset[bytes]) -> Iterator[tuple[bytes, Facts]]:
    """Yield every path of a folder, links not followed, with its facts."""
    top = os.fsencode(folder)
    waiting = [b""]
    while waiting:
        above = waiting.pop()
        with os.scandir(top + b"/" + above if above else top) as items:
            for item in items:
                if not above and item.name in but:
                    continue
                path = above + b"/" + item.name if above else item.name
                found = item.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    waiting.append(path)
                    # What happens inside a folder moves its own times and size, and is seen there.
                    yield path, (found.st_mode, 0, 0, 0, found.st_ino)
                else:
                    yield path, _facts(found)


def _facts(found: os.stat_result) -> Facts:
    return (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def _digest(found: dict[bytes, Facts]) -> Digest:
    """Return the digest of a whole survey; only ever compared with what this machine wrote."""
    hasher = hashlib.sha256()
    for path in sorted(found):
        hasher.update(b"%d\0%d %d %d %d %d\0" % (len(path), *found[path]))
        hasher.update(path)
    return Digest(hasher.hexdigest())


def _memory(store: LocalStore, folder: Path, but: Collection[bytes]) -> Path:
    place = b"\0".join([os.fsencode(folder.absolute()), *sorted(but)])
    return store.root / FOLDER / f"{hashlib.sha256(place).hexdigest()}.json"


def _recall(memory: Path) -> _Seen | None:
    """Return what was seen, or None: what cannot be read was not seen."""
    try:
        head, _, paths = memory.read_bytes().partition(b"\n")
        document = json.loads(head)
        if document["derive"] != _FORMAT:
            return None
        facts = document["facts"]
        return _Seen(tree=Digest(document["tree"]), facts=None if facts is None else Digest(facts), paths=paths)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _known(store: LocalStore, seen: _Seen, found: dict[bytes, Facts]) -> dict[bytes, File]:
    """Return the files that are as they were, where they lie in the store."""
    if not store.has_tree(seen.tree):
        return {}
    try:
        listing = store.listing(seen.tree)
        settled = {unescape(path): tuple(facts) for path, facts in json.loads(seen.paths).items()}
    except (Missing, Corrupt, ValueError, TypeError, AttributeError):
        return {}
    return {path: file for path, file in listing.files() if path in found and settled.get(path) == found[path]}


def _members(
    members: Iterator[tuple[bytes, Member]], known: dict[bytes, File], but: frozenset[bytes]
) -> Iterator[tuple[bytes, Member]]:
    """Put what lies in the store already in place of what would be read again."""
    for path, member in members:
        if path.partition(b"/")[0] in but:
            continue
        file = known.get(path)
        if isinstance(member, NewFile) and file is not None and file.executable == member.executable:
            yield path, file
        else:
            yield path, member


def _remember(store: LocalStore, memory: Path, tree: Digest, facts: Digest | None, settled: dict[bytes, Facts]) -> None:
    memory.parent.mkdir(exist_ok=True)
    head = {"derive": _FORMAT, "facts": None if facts is None else facts.hex, "tree": tree.hex}
    paths = {escape(path): one for path, one in settled.items()}
    text = "\n".join(json.dumps(part, separators=(",", ":")) for part in (head, paths))
    write_whole(memory, text.encode(), store.staging)
