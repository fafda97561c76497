# SPDX-License-Identifier: Apache-2.0
"""What it means when no hub answers for a revision: it is gone, gated, closed, or there is no answer now.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Sequence

from derive.canonical import escape
from derive.errors import DeriveError, Unavailable, UpstreamGone
from derive.net.failures import Gone, Tried

_CODE = "x-error-code"


def verdict(repository: str, revision: str, tried: Sequence[Tried], *, path: str | None = None) -> DeriveError:
    """Return the error that says what all hubs' failures mean; ``path`` is the file that was asked for, if one was."""
    detail = [f"tried     {item}" for item in tried]
    codes = {item.failure.headers.get(_CODE, "") for item in tried}
    if tried and all(isinstance(item.failure, Gone) for item in tried):
        if path is not None and not codes & {"RevisionNotFound", "RepoNotFound"}:
            return UpstreamGone(f"{repository}@{revision[:12]}: no hub serves {escape(path.encode())}", detail=detail)
        if "RevisionNotFound" in codes:
            hint = "look at its branches and tags; a commit may be gone from a branch that was rewritten"
            return UpstreamGone(f"{repository} has no revision {revision}", detail=detail, hint=hint)
        return UpstreamGone(f"no hub has {repository}", detail=detail, hint="look at its owner and its name")
    if "GatedRepo" in codes:
        return Unavailable(
            f"{repository} is gated: its hub serves it to those who have accepted its terms",
            detail=detail,
            hint="accept them with an account on the hub, and set HF_TOKEN to a token of that account",
        )
    if any(item.failure.status in (401, 403) for item in tried):
        return Unavailable(
            f"{repository} is private, or not there",
            detail=detail,
            hint="look at its owner and its name; set HF_TOKEN to a token that may read it",
        )
    return Unavailable(
        f"{repository}@{revision} could not be read", detail=detail, hint="run it again when the hub answers"
    )
