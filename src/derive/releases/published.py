# SPDX-License-Identifier: Apache-2.0
"""Whether others have a promotion: all that it leans on lies on a branch of a remote, as it lies here.

Edge: git as a subprocess, which only reads what was fetched; nobody is asked.
"""

from __future__ import annotations

from pathlib import Path

from derive.records.chain import DOCUMENTS, Chain
from derive.records.history import is_published
from derive.releases.state import promotions


def published(root: Path, chain: Chain, release: str, shape: str, branch: str) -> bool | None:
    """Say whether a remote's branch, such as ``origin/main``, has a shape's last promotion, its release and documents.

    None where git cannot say; False for what was never promoted.
    """
    promoted, candidate = promotions(chain, release, shape), chain.candidate(release)
    if not promoted or candidate is None:
        return False
    files = [promoted[-1].file, candidate.file, *(f"{release}/{name}" for name in DOCUMENTS)]
    found = [is_published(root, file, branch) for file in files]
    return None if None in found else all(found)
