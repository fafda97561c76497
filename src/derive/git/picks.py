# SPDX-License-Identifier: Apache-2.0
"""What one commit of an upstream changed, as a patch: for commits that are picked on top of the pinned one.

Edge: git, the network.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from derive.errors import InputErrors
from derive.git.failures import Subject
from derive.git.model import GitRequest
from derive.git.places import places
from derive.git.program import Session
from derive.git.scratch import Scratch, Sought, first_that_gives

_DIFF = (
    *("diff-tree", "-p", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"),
    *("--unified=3", "--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=myers", "--no-indent-heuristic"),
)


def commit_patch(request: GitRequest, commit: str, *, session: Session) -> bytes:
    """Return what a commit changed against its only parent.

    Raises:
        InputErrors: it is a merge or a first commit, or it changes nothing.
        UpstreamGone: no place has it.
        Unavailable: no place could be asked.
    """
    subject = Subject(name=request.name, what=f"commit {commit}")
    sought = Sought(commit=commit, tag=None, branch=request.branch, depth=2)
    with tempfile.TemporaryDirectory(prefix="derive-git-") as folder:
        scratch = Scratch(session, Path(folder) / "pick", request.name)
        asked = places(request.urls, request.mirrors, request.name)
        first_that_gives(asked, subject, lambda place: scratch.bring(place, sought))
        parents = scratch.git.local("rev-list", "--parents", "-n", "1", commit).decode().split()[1:]
        if len(parents) != 1:
            what = "a merge" if parents else "a first commit"
            raise InputErrors.one(f"{request.name}: {what} cannot be picked: {commit}", hint="pick its own commits")
        patch = scratch.git.local(*_DIFF, parents[0], commit)
    if not patch:
        raise InputErrors.one(f"{request.name}: a commit that changes nothing cannot be picked: {commit}")
    return patch
