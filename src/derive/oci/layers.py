# SPDX-License-Identifier: Apache-2.0
"""Layers laid one upon another: what each adds, and what its whiteouts take away from those below.

Core: no IO.

Each layer is a tree of its own that covers those below, as container engines lay them (tried on Docker's two stores): a
folder that a layer gives, or implies by what it puts below, replaces a link or file of a lower layer. What an engine
refuses, or shows otherwise than the specification says, is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from derive.archives.names import Admission, Limits, refused
from derive.archives.notes import Dropped, Note
from derive.archives.tar import HardLink, TarMember
from derive.canonical import escape
from derive.trees.listing import DIRECTORY, Directory, Entry, File, Listing, Symlink
from derive.trees.pack import NewFile

WHITEOUT = b".wh."
OPAQUE = b".wh..wh..opq"
AUFS = b".wh..wh."
_HOPS = 40  # what Linux follows before it calls a chain of links a loop


@dataclass(slots=True, eq=False)
class _Folder:
    """A folder; ``layer`` is the highest one that gave it, or said something of what is below it."""

    layer: int
    children: dict[bytes, _Node] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class _Leaf:
    """A file or a link; bytes are the name of a file in the pack that its layer is being written to."""

    layer: int
    content: File | Symlink | bytes
    dropped: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class _Gone:
    """Where a layer took away what lower ones gave."""

    layer: int


_Node: TypeAlias = _Folder | _Leaf | _Gone


class Stack:
    """A tree that grows by layers: :meth:`lay` reads one, :meth:`settle` says where its files were written."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._root = _Folder(layer=-1)
        self._layer = -1
        self._name = ""
        self._unsettled: list[_Leaf] = []
        self._ignored: list[Note] = []

    def lay(
        self, name: str, members: Iterator[tuple[bytes, TarMember]], notes: Sequence[Note]
    ) -> Iterator[tuple[bytes, NewFile]]:
        """Take in a layer's members, and pass its files on to a pack, under names that :meth:`settle` knows.

        ``notes`` grows while ``members`` are read; ``name`` is what errors call the layer.

        Raises:
            InputErrors: for a member that no layer may hold, by name.
        """
        self._layer += 1
        self._name = name
        admit = Admission(name, self._limits)
        noted = 0
        for path, member in members:
            admit(path)
            dropped = tuple(note.what for note in notes[noted:] if isinstance(note, Dropped))
            noted = len(notes)
            above, _, base = path.rpartition(b"/")
            if base.startswith(AUFS) and not above and base != OPAQUE and not isinstance(member, Directory):
                self._ignored.append(Dropped(path, "metadata of AUFS"))
            elif WHITEOUT in path and self._take_away(path, above, base, member):
                continue
            elif isinstance(member, NewFile):
                key = b"files/%d" % len(self._unsettled)
                yield key, member
                self._put(path, above, base, _Leaf(self._layer, key, dropped))
            elif isinstance(member, Directory):
                self._put_folder(path, above, base, dropped)
            elif isinstance(member, HardLink):
                self._put(path, above, base, self._linked(path, member.target))
            else:
                self._put(path, above, base, _Leaf(self._layer, member, dropped))

    def settle(self, packed: Listing) -> None:
        """Replace the names of the last layer's files by what the pack says of them."""
        for leaf in self._unsettled:
            if isinstance(leaf.content, bytes):
                found = packed[leaf.content]
                assert isinstance(found, File)
                leaf.content = found
        self._unsettled.clear()

    def entries(self) -> dict[bytes, Entry]:
        """Return the whole tree."""
        found: dict[bytes, Entry] = {}
        for path, node in self._walk():
            if isinstance(node, _Folder):
                found[path] = DIRECTORY
            elif isinstance(node, _Leaf):
                assert not isinstance(node.content, bytes), "the last layer is not settled"
                found[path] = node.content
        return found

    def notes(self) -> tuple[Note, ...]:
        """Return what the tree cannot keep of what stands in it, sorted by path."""
        found = {
            Dropped(path, what) for path, node in self._walk() if not isinstance(node, _Gone) for what in node.dropped
        }
        return tuple(sorted({*found, *self._ignored}, key=lambda note: (note.path, repr(note))))

    def _walk(self) -> Iterator[tuple[bytes, _Node]]:
        waiting: list[tuple[bytes, _Node]] = [(b"", self._root)]
        while waiting:
            path, node = waiting.pop()
            yield path, node
            if isinstance(node, _Folder):
                prefix = path + b"/" if path else b""
                waiting += ((prefix + name, child) for name, child in node.children.items())

    def _put(self, path: bytes, above: bytes, base: bytes, leaf: _Leaf) -> None:
        folder = self._folder(path, above)
        before = folder.children.get(base)
        if before is not None and before.layer == self._layer and not isinstance(before, _Gone):
            raise refused(self._name, path, "the same path twice in a layer")
        folder.children[base] = leaf
        if isinstance(leaf.content, bytes):
            self._unsettled.append(leaf)

    def _put_folder(self, path: bytes, above: bytes, base: bytes, dropped: tuple[str, ...]) -> None:
        if not path:
            self._root.dropped = dropped
            return
        folder = self._folder(path, above)
        before = folder.children.get(base)
        if isinstance(before, _Folder):
            before.layer, before.dropped = self._layer, dropped
        elif before is None or before.layer < self._layer:
            folder.children[base] = _Folder(self._layer, dropped=dropped)
        elif isinstance(before, _Gone):
            # The specification hides what lower layers have there; engines show it.
            raise refused(self._name, path, "a folder that the same layer takes away")
        else:
            raise refused(self._name, path, "the same path twice in a layer")

    def _linked(self, path: bytes, target: bytes) -> _Leaf:
        above, _, base = target.rpartition(b"/")
        folder = self._find(path, above, make=False)
        found = folder.children.get(base) if folder else None
        if isinstance(found, _Folder):
            raise refused(self._name, path, f"a hard link to the folder {escape(target)}")
        if not isinstance(found, _Leaf) or found.layer < self._layer:
            raise refused(self._name, path, f"a hard link to {escape(target)}, which is not before it in its layer")
        return _Leaf(self._layer, found.content, found.dropped)

    def _take_away(self, path: bytes, above: bytes, base: bytes, member: TarMember) -> bool:
        """Heed a whiteout, and say whether it was one."""
        if any(part.startswith(WHITEOUT) for part in above.split(b"/")):
            raise refused(self._name, path, "a path below a whiteout")
        if not base.startswith(WHITEOUT):
            return False
        if isinstance(member, Directory):
            raise refused(self._name, path, "a whiteout that is a folder")
        folder = self._folder(path, above)
        name = base.removeprefix(WHITEOUT)
        if base == OPAQUE and not above:
            raise refused(self._name, path, "a layer that hides all layers below it, which engines show")
        if base == OPAQUE:
            self._prune(folder)
        elif name in (b"", b".", b"..") or name.startswith(WHITEOUT):
            raise refused(self._name, path, "a whiteout of no name that a layer may hold")
        elif name in folder.children and folder.children[name].layer == self._layer:
            raise refused(self._name, path, "a whiteout of what the same layer gives")
        else:
            folder.children[name] = _Gone(self._layer)
        return True

    def _prune(self, folder: _Folder) -> None:
        """Leave in a folder only what this layer has put there."""
        waiting = [folder]
        while waiting:
            current = waiting.pop()
            current.children = {name: node for name, node in current.children.items() if node.layer == self._layer}
            waiting += (node for node in current.children.values() if isinstance(node, _Folder))

    def _folder(self, path: bytes, above: bytes) -> _Folder:
        folder = self._find(path, above, make=True)
        assert folder is not None
        return folder

    def _find(self, path: bytes, above: bytes, *, make: bool) -> _Folder | None:
        """Return the folder at a path; with ``make`` what this layer lacks on the way is made, else it is None."""
        ahead = above.split(b"/")[::-1]
        here = [self._root]
        hops = 0
        while ahead:
            part = ahead.pop()
            if part == b"..":
                here[1:] = here[1:-1]
            if part in (b"", b".", b".."):
                continue
            child = here[-1].children.get(part)
            own = child is not None and child.layer == self._layer
            if not own and hops:
                raise refused(self._name, path, "a path through a symbolic link that leads to nothing of its own layer")
            if not own and not make:
                return None
            if own and isinstance(child, _Leaf) and isinstance(child.content, Symlink):
                hops += 1
                if hops > _HOPS:
                    raise refused(self._name, path, "a path through a symbolic link that loops")
                target = child.content.target
                here = [self._root] if target.startswith(b"/") else here
                ahead += target.split(b"/")[::-1]
                continue
            if own and not isinstance(child, _Folder):
                raise refused(self._name, path, f"a path below {escape(part)}, which is no folder")
            if not isinstance(child, _Folder):
                child = here[-1].children[part] = _Folder(self._layer)
            child.layer = self._layer
            here.append(child)
        return here[-1]
