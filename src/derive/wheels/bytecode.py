# SPDX-License-Identifier: Apache-2.0
"""Byte code of a tree's sources: what to compile, how to start the compiler in a sandbox, how to speak with it.

Edge: reads its own script, ``compile_bytecode.py``, from the package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from derive.canonical import escape
from derive.errors import BuildFailed
from derive.trees.listing import Listing

SCRIPT = "compile_bytecode.py"

PAUSE = bytes(8)
"""The request that is answered when all before it are."""

Status: TypeAlias = Literal["compiled", "refused", "crashed", "paused"]

_STATUSES: tuple[Status, ...] = ("compiled", "refused", "crashed", "paused")
_HEAD = 9  # bytes: place, status, size


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the compiler says of the request at ``place`` (from 0, since the last pause).

    ``data`` is the byte code, or in ASCII why there is none.
    """

    place: int
    status: Status
    data: bytes

    @property
    def reason(self) -> str:
        """Why there is no byte code."""
        return self.data.decode("ascii", "backslashreplace")


def script() -> bytes:
    """Return the compiler script, which is to lie in the sandbox under any name."""
    from importlib.resources import files

    return files("derive.wheels").joinpath(SCRIPT).read_bytes()


def command(*, python: str, script: str, requests: str, replies: str, jobs: int) -> tuple[str, ...]:
    """Return the command to run in the sandbox; all paths as seen there. ``jobs`` changes no byte."""
    return (python, script, requests, replies, str(jobs))


def sources(listing: Listing, paths: Iterable[bytes] = (b"",), exclude: Iterable[str] = ()) -> tuple[bytes, ...]:
    """Return the ``.py`` files at or below ``paths``, sorted bytewise, but for those whose path matches ``exclude``.

    Patterns are matched against the escaped path from the root, without a leading slash; ``*`` spans slashes.
    """
    tops = tuple(paths)
    patterns = tuple(exclude)
    return tuple(
        sorted(
            path
            for path, _ in listing.files()
            if path.endswith(b".py")
            and b"__pycache__" not in path.split(b"/")
            and any(not top or path == top or path.startswith(top + b"/") for top in tops)
            and not any(fnmatchcase(escape(path), pattern) for pattern in patterns)
        )
    )


def byte_code_path(source: bytes, python: str) -> bytes:
    """Return where the byte code of a source lies, for CPython ``X.Y``."""
    folder, slash, name = source.rpartition(b"/")
    tag = "cpython-" + python.replace(".", "")
    return folder + slash + b"__pycache__/" + name.removesuffix(b".py") + b"." + tag.encode() + b".pyc"


def request(path: bytes, source: bytes) -> bytes:
    """Return the request to compile a source."""
    return b"".join((len(path).to_bytes(4, "big"), len(source).to_bytes(4, "big"), path, source))


class Replies:
    """Cuts what the compiler writes into replies."""

    def __init__(self) -> None:
        self._left = bytearray()

    def take(self, data: bytes) -> Iterator[Reply]:
        """Take the next bytes, and yield the replies that they complete.

        Raises:
            BuildFailed: when they are not what the compiler writes.
        """
        self._left += data
        while len(self._left) >= _HEAD:
            head = self._left[:_HEAD]
            end = _HEAD + int.from_bytes(head[5:], "big")
            if head[4] >= len(_STATUSES):
                raise strange(f"status {head[4]}")
            if len(self._left) < end:
                return
            found = bytes(self._left[_HEAD:end])
            del self._left[:end]
            yield Reply(place=int.from_bytes(head[:4], "big"), status=_STATUSES[head[4]], data=found)


def strange(what: str) -> BuildFailed:
    """Return the failure of a compiler that writes something else than replies to its requests."""
    return BuildFailed(f"the byte-code compiler wrote something else than its replies: {what}")
