# SPDX-License-Identifier: Apache-2.0
"""Content files out of git: as the commit of a release has them, else as any commit of any branch ever had them.

Edge: git as a subprocess, which only reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from derive.canonical import Digest, sha256
from derive.doctor.git_facts import GitRefused, git


@dataclass(frozen=True, slots=True)
class GitHistory:
    """The repository that a project's folder lies in. ``commit`` is what was checked out when the release was made."""

    root: Path
    commit: str | None
    name: str = "git's history"

    def find(self, wanted: Mapping[str, Digest]) -> Iterator[tuple[str, bytes]]:
        """Yield what git has; where there is no git, nothing."""
        try:
            found = dict(self._then(wanted))
            yield from found.items()
            left = {path: digest for path, digest in wanted.items() if path not in found}
            yield from self._ever(left)
        except GitRefused:
            return

    def _then(self, wanted: Mapping[str, Digest]) -> Iterator[tuple[str, bytes]]:
        """Yield the files that the release's own commit has: others were changed then, and not committed."""
        if self.commit is None:
            return
        try:
            listed = _listed(git(self.root, "ls-tree", "-r", "-z", self.commit, "--", *_folders(wanted)))
        except GitRefused:
            return  # a clone that has not that commit
        blobs = {path: blob for path, blob in listed if path in wanted}
        read = read_blobs(self.root, blobs.values())
        yield from ((path, read[blob]) for path, blob in blobs.items() if sha256(read[blob]) == wanted[path])

    def _ever(self, wanted: Mapping[str, Digest]) -> Iterator[tuple[str, bytes]]:
        """Yield the files that any commit had: the change that was not committed then usually was soon after."""
        if not wanted:
            return
        shown = ("--raw", "--no-renames", "--no-abbrev", "--relative", "-m", "-z", "--format=")
        printed = git(self.root, "log", "--all", *shown, "--", *_folders(wanted)).decode("utf-8", "surrogateescape")
        cells = [cell for cell in printed.replace("\n", "").split("\0") if cell]
        blobs: dict[str, set[str]] = {}
        for about, path in zip(cells[::2], cells[1::2], strict=False):
            blob = about.split(" ")[3]
            if path in wanted and set(blob) != {"0"}:
                blobs.setdefault(path, set()).add(blob)
        read = read_blobs(self.root, {blob for found in blobs.values() for blob in found})
        for path, found in blobs.items():
            yield from ((path, read[blob]) for blob in sorted(found) if sha256(read[blob]) == wanted[path])


def _folders(wanted: Mapping[str, Digest]) -> list[str]:
    return sorted({path.partition("/")[0] for path in wanted})


def _listed(printed: bytes) -> Iterator[tuple[str, str]]:
    for row in printed.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        about, _, path = row.partition("\t")
        yield path, about.split(" ")[2]


def read_blobs(root: Path, blobs: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of blobs, all read by one process."""
    names = sorted(set(blobs))
    if not names:
        return {}
    printed = git(root, "cat-file", "--batch", given="".join(f"{name}\n" for name in names).encode())
    found: dict[str, bytes] = {}
    at = 0
    for name in names:
        end = printed.index(b"\n", at)
        head = printed[at:end].split(b" ")
        at = end + 1
        if len(head) == 3:
            size = int(head[2])
            found[name] = printed[at : at + size]
            at += size + 1
    return found
