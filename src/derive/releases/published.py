# SPDX-License-Identifier: Apache-2.0
"""Whether others have a promotion: all that it leans on lies on a branch of a remote, and nothing newer about it.

Edge: git as a subprocess, which only reads what was fetched; nobody is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from derive.records.chain import DOCUMENTS, Chain, Entry, read_chain
from derive.records.history import branch_files, is_published
from derive.releases.policy import Newer
from derive.releases.state import promotions


def published(root: Path, chain: Chain, release: str, shape: str, branch: str) -> bool | Newer | None:
    """Say whether a remote's branch, such as ``origin/main``, has a shape's last promotion, its release and documents.

    What the branch says of the shape and the chain here does not is returned, the last of it: the working tree is
    older. None where git cannot say; False for what was never promoted.
    """
    files = branch_files(root, branch)
    there = None if files is None else read_chain(files)
    if there is None or there.problems:
        return None
    newer = list(_newer(chain, there, release, shape))
    if newer:
        return Newer(branch=branch, entry=newer[-1])
    promoted, candidate = promotions(chain, release, shape), chain.candidate(release)
    if not promoted or candidate is None:
        return False
    wanted = [promoted[-1].file, candidate.file, *(f"{release}/{name}" for name in DOCUMENTS)]
    found = [is_published(root, file, branch) for file in wanted]
    return None if None in found else all(found)


def _newer(chain: Chain, there: Chain, release: str, shape: str) -> Iterator[Entry]:
    """Yield promotions and retirements of a shape that only the branch has; with another number is here, too."""
    here = [(one.record.kind, one.record.body) for one in chain.entries]
    for entry in there.entries:
        kind, body = entry.record.kind, entry.record.body
        named = entry.record.subject if kind == "promoted" else body.get("release") if kind == "retired" else None
        if named == release and body.get("shape") in (None, shape) and (kind, body) not in here:
            yield entry
