# SPDX-License-Identifier: Apache-2.0
"""Git's objects as bytes: hashed, taken apart, and made again from the contents of a tree.

Core: no IO. Contents come from a function that the caller gives.

An id is the SHA-1 of ``<kind> <size>`` and a zero byte, then the object's bytes. A tree object names modes, names and
ids; a commit names its tree. So a commit is bound to every byte below it, and whoever holds the commit object and the
contents can check that with no repository at hand.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from derive.canonical import escape
from derive.trees.listing import Directory, File, Listing, Symlink
from derive.trees.nar import ContentReader

Kind: TypeAlias = Literal["blob", "tree", "commit", "tag"]

FOLDER, PLAIN, PROGRAM, LINK, SUBMODULE = b"40000", b"100644", b"100755", b"120000", b"160000"
"""The modes as git writes them."""

KNOWN_MODES: Mapping[int, bytes] = {
    **{int(mode, 8): mode for mode in (FOLDER, PLAIN, PROGRAM, LINK, SUBMODULE)},
    0o100664: PLAIN,
}
"""What each mode means. Git no longer writes 100664, nor modes with leading zeros, and reads both."""

_HEADER_LINE = re.compile(rb"([a-z]+) ([^\n]*)\n")
_MODE = re.compile(rb"[0-7]{5,7}")
_SHORT_ID = re.compile(rb"[0-9a-f]{40}")


class ObjectError(ValueError):
    """Bytes that are no object of their kind; the message says why."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One line of a tree object: the mode as written, the name, and the id in hex."""

    mode: bytes
    name: bytes
    id: str

    @property
    def meaning(self) -> bytes:
        """The mode as git writes it today."""
        return KNOWN_MODES[int(self.mode, 8)]


@dataclass(frozen=True, slots=True)
class TagObject:
    """What an annotated tag binds its name to."""

    name: bytes
    object: str
    kind: str


def object_id(kind: Kind, data: bytes) -> str:
    """Return the id of an object, 40 hex digits."""
    return hash_object(kind, len(data), (data,))


def hash_object(kind: Kind, size: int, chunks: Iterable[bytes]) -> str:
    """Return the id of an object whose bytes come in pieces, ``size`` in all."""
    state = begin_object(kind, size)
    for chunk in chunks:
        state.update(chunk)
    return state.hexdigest()


def begin_object(kind: Kind, size: int) -> hashlib._Hash:
    """Return a hash that has taken in what comes before an object's bytes."""
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), size), usedforsecurity=False)


def commit_id(raw: bytes) -> str:
    """Return the id of a commit object."""
    return object_id("commit", raw)


def tree_of(raw: bytes) -> str:
    """Return the id of the tree that a commit object names; raises ObjectError."""
    key, value = _first_line(raw, "commit")
    if key != b"tree":
        raise ObjectError(f"a commit object begins with its tree, not with {escape(key)}")
    return _id(value, "the tree of a commit")


def parse_tag(raw: bytes) -> TagObject:
    """Read an annotated tag; raises ObjectError."""
    fields: dict[bytes, bytes] = {}
    for match in _HEADER_LINE.finditer(raw.partition(b"\n\n")[0] + b"\n"):
        fields.setdefault(match[1], match[2])
    try:
        kind, name, target = fields[b"type"], fields[b"tag"], fields[b"object"]
    except KeyError as error:
        raise ObjectError(f"a tag object without its line {error.args[0].decode()}") from None
    return TagObject(name, _id(target, "the object of a tag"), escape(kind))


def parse_tree(raw: bytes) -> tuple[TreeEntry, ...]:
    """Read a tree object, in its own order.

    Raises:
        ObjectError: on a name that no folder can hold or that stands twice, on ``.git``, on an unknown mode, and on a
            wrong order.
    """
    entries: list[TreeEntry] = []
    names: set[bytes] = set()
    last = b""
    at = 0
    while at < len(raw):
        end = raw.find(b"\0", at)
        mode, blank, name = raw[at:end].partition(b" ")
        if end < 0 or not blank or len(raw) < end + 21:
            raise ObjectError("a tree object that ends in the middle of an entry")
        if not _MODE.fullmatch(mode) or int(mode, 8) not in KNOWN_MODES:
            raise ObjectError(f"an entry of unknown mode {escape(mode)}: {escape(name)}")
        _check_name(name)
        key = name + b"/" if KNOWN_MODES[int(mode, 8)] == FOLDER else name
        if name in names:
            raise ObjectError(f"the same name twice: {escape(name)}")
        if key <= last:
            raise ObjectError(f"entries out of order: {escape(name)}")
        names.add(name)
        last = key
        entries.append(TreeEntry(mode, name, raw[end + 1 : end + 21].hex()))
        at = end + 21
    return tuple(entries)


def render_tree(entries: Iterable[TreeEntry]) -> bytes:
    """Write the tree object that holds these entries, in git's order."""
    ordered = sorted(entries, key=lambda e: e.name + b"/" if e.meaning == FOLDER else e.name)
    return b"".join(b"%s %s\0%s" % (entry.mode, entry.name, bytes.fromhex(entry.id)) for entry in ordered)


@dataclass(frozen=True, slots=True)
class TreeIds:
    """The git tree id of a whole tree, and of the contents at each submodule's path, those inside others too."""

    top: str
    submodules: Mapping[bytes, str]


def git_tree_id(listing: Listing, read: ContentReader, links: Mapping[bytes, str] | None = None) -> str:
    """Return the id of the git tree that a listing is; ``links``: path -> commit of its submodules."""
    return tree_ids(listing, read, links or {}, {}).top


def tree_ids(
    listing: Listing, read: ContentReader, links: Mapping[bytes, str], modes: Mapping[bytes, bytes]
) -> TreeIds:
    """Return what ids a listing's contents have in git.

    An empty folder that is no submodule is an empty tree. ``modes``: modes that git no longer writes, by path.

    Raises:
        ObjectError: when a submodule's path holds no folder, or a name cannot stand in a tree object.
    """
    inside: dict[bytes, list[TreeEntry]] = {b"": []}
    found: dict[bytes, str] = {}
    missing = [path for path in links if not isinstance(listing.get(path), Directory)]
    if missing:
        raise ObjectError(f"a submodule that is no folder: {escape(min(missing))}")
    for path in reversed(tuple(listing)):  # what lies in a folder comes before the folder
        entry = listing[path]
        match entry:
            case File():
                mode = PROGRAM if entry.executable else PLAIN
                own = hash_object("blob", entry.size, read(path, entry))
            case Symlink(target):
                mode, own = LINK, object_id("blob", target)
            case Directory():
                mode, own = FOLDER, object_id("tree", render_tree(inside.pop(path, ())))
            case _:
                assert_never(entry)
        if path in links:
            found[path] = own
            mode, own = SUBMODULE, links[path]
        if path == b"":
            return TreeIds(own, found)
        folder, _, name = path.rpartition(b"/")
        _check_name(name)
        written = TreeEntry(modes.get(path, mode), name, own)
        if written.meaning != mode:
            raise ObjectError(f"a mode that means something else: {escape(path)}")
        inside.setdefault(folder, []).append(written)
    raise ObjectError("a tree without a top")


def _check_name(name: bytes) -> None:
    if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
        raise ObjectError(f"a name that no folder can hold: {escape(name)!r}")
    if name.lower() == b".git":
        raise ObjectError(f"an entry that git itself never lays out: {escape(name)}")


def _first_line(raw: bytes, kind: str) -> tuple[bytes, bytes]:
    match = _HEADER_LINE.match(raw)
    if match is None:
        raise ObjectError(f"not a {kind} object")
    return match[1], match[2]


def _id(value: bytes, what: str) -> str:
    if not _SHORT_ID.fullmatch(value):
        raise ObjectError(f"{what} is no id of 40 hexadecimal digits: {escape(value)}")
    return value.decode()
