# SPDX-License-Identifier: Apache-2.0
"""A folder on disk as a stream of tree members, in NAR order, its files read once and never whole.

Edge: reads the file system.

Every folder and file is opened from the descriptor of the scanned folder, name by name, following no link: whoever
changes the folder meanwhile can spoil the result, and lead the reader nowhere else.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from derive.canonical import escape
from derive.errors import InputErrors, Problem
from derive.trees.listing import DIRECTORY, Directory, Symlink, nar_key
from derive.trees.pack import Member, NewFile

_CHUNK = 1 << 20
_AS_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_AS_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_PATH = 4095  # what a path may have in any system call, so that the tree can be unpacked again

_KINDS = {
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
    stat.S_IFIFO: "a fifo",
    stat.S_IFSOCK: "a socket",
}


@dataclass(frozen=True, slots=True)
class _FoundFile:
    executable: bool


_Found = _FoundFile | Symlink | Directory


class FolderScan:
    """A surveyed folder. Names, kinds and links are known; contents are read as :meth:`members` is consumed.

    ``special_bits`` lists the files with setuid or setgid, in NAR order, with their mode: facts that a tree drops.
    """

    def __init__(self, top: int, entries: dict[bytes, _Found], special_bits: tuple[tuple[bytes, int], ...]) -> None:
        self._top = top
        self._entries = entries
        self._folder: tuple[bytes, int] | None = None
        self.special_bits = special_bits

    def members(self) -> Iterator[tuple[bytes, Member]]:
        """Yield each path with its member, the root first. Valid while the scan is open.

        Raises:
            InputErrors: from the chunks of a file that is no regular file any more.
        """
        for path, entry in self._entries.items():
            if isinstance(entry, _FoundFile):
                yield path, NewFile(entry.executable, self._chunks(path))
            else:
                yield path, entry

    def __len__(self) -> int:
        return len(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        os.close(self._top)

    def _chunks(self, path: bytes) -> Iterator[bytes]:
        file, size = self._open(path)
        asked = min(_CHUNK, size + 1)
        seen = 0
        try:
            while chunk := os.read(file, asked):
                seen += len(chunk)
                yield chunk
                if seen == size and len(chunk) < asked:
                    break  # less came than was asked for: the end
        finally:
            os.close(file)

    def _open(self, path: bytes) -> tuple[int, int]:
        """Open a file; return its descriptor and its size in bytes."""
        folder, _, name = path.rpartition(b"/")
        try:
            # O_NONBLOCK: should a fifo have taken the file's place, opening it must not wait for a writer.
            file = os.open(name, _AS_FILE | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=self._enter(folder))
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.ENXIO):
                raise
            raise _changed(path) from error
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            os.close(file)
            raise _changed(path)
        return file, found.st_size

    def _enter(self, folder: bytes) -> int:
        """Keep the last folder open: in NAR order the next file mostly lies in the same one."""
        if self._folder is None or self._folder[0] != folder:
            self._leave()
            self._folder = (folder, _open_folder(self._top, folder))
        return self._folder[1]

    def _leave(self) -> None:
        if self._folder is not None:
            os.close(self._folder[1])
            self._folder = None


def scan_folder(folder: Path, *, own: bool = False) -> FolderScan:
    """Survey a folder; use the result as a context manager.

    ``own``: the folder is ours alone, so that what its owner may not read is made readable first. Without it, root and
    an ordinary user would see different trees of the same folder.

    Raises:
        InputErrors: every device, fifo, socket and overlong path, at once, by name.
        OSError: when the folder cannot be read.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    survey = _Survey(own=own)
    try:
        if own:
            os.fchmod(top, 0o755)
        survey.walk(top)
    except BaseException:
        os.close(top)
        raise
    if survey.problems:
        os.close(top)
        raise InputErrors(survey.problems)
    entries = {path: survey.entries[path] for path in sorted(survey.entries, key=nar_key)}
    special_bits = sorted(survey.special_bits, key=lambda item: nar_key(item[0]))
    return FolderScan(top, entries, tuple(special_bits))


class _Survey:
    """What one walk finds. Holds one descriptor at a time, whatever the depth."""

    def __init__(self, *, own: bool) -> None:
        self.own = own
        self.entries: dict[bytes, _Found] = {b"": DIRECTORY}
        self.special_bits: list[tuple[bytes, int]] = []
        self.problems: list[Problem] = []

    def walk(self, top: int) -> None:
        waiting = [b""]
        while waiting:
            self._list(top, waiting.pop(), waiting)

    def _list(self, top: int, path: bytes, waiting: list[bytes]) -> None:
        folder = _open_folder(top, path)
        try:
            with os.scandir(folder) as found:
                for item in found:
                    name = os.fsencode(item.name)
                    below = path + b"/" + name if path else name
                    mode = item.stat(follow_symlinks=False).st_mode
                    if len(below) > _LONGEST_PATH:
                        self._refuse(below[:80] + b"...", f"a path of more than {_LONGEST_PATH} bytes")
                    elif stat.S_ISDIR(mode):
                        if self.own and mode & 0o500 != 0o500:
                            _make_readable(folder, item.name, mode, 0o700)
                        self.entries[below] = DIRECTORY
                        waiting.append(below)
                    else:
                        self._take(folder, item.name, below, mode)
        finally:
            os.close(folder)

    def _take(self, folder: int, name: str, path: bytes, mode: int) -> None:
        if stat.S_ISREG(mode):
            if self.own and not mode & 0o400:
                _make_readable(folder, name, mode, 0o400)
            if mode & (stat.S_ISUID | stat.S_ISGID):
                self.special_bits.append((path, stat.S_IMODE(mode)))
            self.entries[path] = _FoundFile(bool(mode & stat.S_IXUSR))
        elif stat.S_ISLNK(mode):
            self.entries[path] = Symlink(os.fsencode(os.readlink(name, dir_fd=folder)))
        else:
            self._refuse(path, _KINDS.get(stat.S_IFMT(mode), "neither file, folder nor link"))

    def _refuse(self, path: bytes, what: str) -> None:
        self.problems.append(Problem(where=escape(path), message=f"{what}, which no tree can hold"))


def _changed(path: bytes) -> InputErrors:
    return InputErrors.one("changed while it was read: no regular file any more", where=escape(path))


def _make_readable(folder: int, name: str, mode: int, rights: int) -> None:
    """Give the owner rights back, through a descriptor, so that no link is followed."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        Path(f"/proc/self/fd/{handle}").chmod(stat.S_IMODE(mode) | rights)
    finally:
        os.close(handle)


def _open_folder(top: int, path: bytes) -> int:
    """Open a folder below another, one name at a time, following no link."""
    opened = os.dup(top)
    names = path.split(b"/") if path else []
    for index, name in enumerate(names):
        try:
            kind = os.O_RDONLY if index == len(names) - 1 else os.O_PATH
            inner = os.open(name, kind | _AS_FOLDER, dir_fd=opened)
        finally:
            os.close(opened)
        opened = inner
    return opened
