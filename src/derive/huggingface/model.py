# SPDX-License-Identifier: Apache-2.0
"""What a revision of a repository holds: every file with its size and its hashes; never a host.

Core: no IO.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from derive.canonical import Digest

Kind: TypeAlias = Literal["model", "dataset"]

_REVISION = re.compile(r"[0-9a-f]{40}")
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?"
_REPOSITORY = re.compile(rf"(?:{_PART}/)?{_PART}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HfFile:
    """A file of a repository: its path, ``/``-separated, and its size in bytes.

    ``sha256`` is that of its contents, None where nobody has stated or computed it: such a file is unpinned.
    ``blob_id`` is the id (SHA-1, 40 hex digits) of the git blob that stands in the repository: of the contents, or for
    a large file of the pointer to them; None where it is not known.
    """

    path: str
    size: int
    sha256: Digest | None
    blob_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HfPin:
    """A repository at one commit (40 hex digits), and its files, sorted by the bytes of their paths."""

    repository: str
    kind: Kind
    revision: str
    files: tuple[HfFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def unpinned(self) -> tuple[HfFile, ...]:
        """The files whose hash is not known."""
        return tuple(file for file in self.files if file.sha256 is None)

    def file(self, path: str) -> HfFile | None:
        """Return the file at a path, or None."""
        return next((file for file in self.files if file.path == path), None)


def is_repository(text: str) -> bool:
    """Say whether this names a repository: ``name`` or ``owner/name``."""
    return bool(_REPOSITORY.fullmatch(text)) and ".." not in text and "--" not in text


def is_revision(text: str) -> bool:
    """Say whether this is a commit, in full."""
    return bool(_REVISION.fullmatch(text))
