# SPDX-License-Identifier: Apache-2.0
"""What git said when it failed, put into one of few kinds; and what the failures of all places mean together.

Core: no IO. :class:`GitFailure` stays inside ``derive.git``; :func:`no_answer` turns it into an error for a person.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from derive.errors import DeriveError, HostRefuses, Unavailable, UpstreamGone

Kind: TypeAlias = Literal[
    "no-repository",
    "no-ref",
    "no-commit",
    "refused-id",
    "dumb",
    "denied",
    "format",
    "transient",
    "silent",
    "space",
    "other",
]
"""``refused-id``: the server gives branches and tags, and no commit by its id. ``dumb``: it serves plain files."""

_ANSWERED: frozenset[Kind] = frozenset({"no-repository", "no-ref", "no-commit"})

# The first that matches decides. Git's words in the C locale; servers' own words come after "remote:".
_KINDS: Sequence[tuple[Kind, str]] = (
    ("refused-id", r"not our ref|unadvertised object|want [0-9a-f]{40} not valid"),
    ("no-ref", r"couldn't find remote ref"),
    ("dumb", r"dumb http transport does not support shallow"),
    ("format", r"mismatched algorithms"),
    ("space", r"No space left on device|Disk quota exceeded"),
    ("denied", r"Authentication failed|could not read (Username|Password)|terminal prompts disabled"),
    ("denied", r"Permission denied|Host key verification failed|Too many authentication failures"),
    ("denied", r"dubious ownership|returned error: 40[13]|transport '[^']*' not allowed"),
    ("no-repository", r"[Rr]epository '?[^'\n]*'? ?(not found|does not exist)|returned error: 4(04|10)"),
    ("no-repository", r"does not appear to be a git repository|not a git repository|repository not exported"),
    ("silent", r"Connection timed out|Operation timed out|Could(n't| not) resolve (host|proxy)|Connection refused"),
    ("silent", r"Failed to connect|No route to host|Network is unreachable"),
    ("transient", r"early EOF|RPC failed|hung up unexpectedly|unexpected disconnect|Connection (reset|closed)"),
    ("transient", r"returned error: (5\d\d|429|408)|Empty reply|timed out|index-pack failed|Broken pipe"),
    ("transient", r"invalid index-pack output|pack has bad object|pack is corrupted|transfer closed"),
    ("transient", r"bad (pack header|line length|band)|protocol error|SSL_read|GnuTLS recv error"),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _KINDS)
_PROGRESS = re.compile(r"^(remote: )?[A-Z][a-z]+( [a-z]+)*: +\d+")
_HINT_LINES = (
    "hint:",
    "and the repository exists",
    "Please make sure you have the correct access",
    "warning:",
    "From ",
)
_MOST = 300
_MIRROR = "name a mirror that has it in DERIVE_MIRROR_GIT"


class GitFailure(Exception):
    """One place did not give what was asked of it."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One place as it may be shown, and how it failed."""

    shown: str
    failure: GitFailure

    def __str__(self) -> str:
        return f"tried     {self.shown}: {self.failure.reason}"


def classify(said: str) -> GitFailure:
    """Return what git's standard error means; ``said`` is in the C locale, without credentials."""
    for kind, pattern in _PATTERNS:
        if pattern.search(said):
            return GitFailure(kind, _reason(said))
    return GitFailure("other", _reason(said))


def _reason(said: str) -> str:
    """Return the few words of git's that say why, on one line."""
    lines = [line.strip() for part in said.split("\n") for line in part.split("\r")]
    lines = [line for line in lines if line and not _PROGRESS.match(line) and not line.startswith(_HINT_LINES)]
    told = [re.sub(r"^(fatal|error|remote): *(error: |fatal: )?", "", line) for line in lines]
    told = list(dict.fromkeys(line for line in told if line))
    text = "; ".join(told[-3:]) or "git failed and said nothing"
    text = "".join(letter if letter.isprintable() else "?" for letter in text)  # servers have their say in it
    return text if len(text) <= _MOST else text[:_MOST] + "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is asked of servers: the upstream's name, and which of its things, such as ``tag v1``."""

    name: str
    what: str
    submodule: bool = False


def no_answer(subject: Subject, tried: Sequence[Tried]) -> DeriveError:
    """Return the error that says what all places' failures mean."""
    lines = [str(item) for item in tried]
    kinds = {item.failure.kind for item in tried}
    other = "give another URL for it in submodule-urls" if subject.submodule else _MIRROR
    if "no-commit" in kinds and kinds <= _ANSWERED:
        return UpstreamGone(
            f"{subject.name}: no server gives {subject.what}",
            detail=lines,
            hint=f"ask its owner to tag that commit, or {other}",
        )
    if kinds and kinds <= _ANSWERED:
        hint = other if subject.submodule else f"{_correction(subject, kinds)}, or {other}"
        return UpstreamGone(f"{subject.name}: nobody serves {subject.what}", detail=lines, hint=hint)
    return Unavailable(f"{subject.name}: {subject.what} could not be had", detail=lines, hint=_hint(kinds))


def _correction(subject: Subject, kinds: set[Kind]) -> str:
    """Return what to do about a thing that is not there: what a lock pinned may have moved, a name is a person's."""
    kind = subject.what.partition(" ")[0]
    if kind == "commit":
        return f"run: derive lock --update {subject.name}"
    if "no-ref" in kinds and kind in ("branch", "tag"):
        return f"correct the name of the {kind}"
    return "name a branch, tag or commit of it" if "no-ref" in kinds else "correct its URL"


def no_space(name: str) -> HostRefuses:
    """Return the error for a disk that is full."""
    return HostRefuses(f"no space left for {name}", hint="free some space, or name another --store")


def _hint(kinds: set[Kind]) -> str:
    if "denied" in kinds:
        return "git asks nobody here: set up a key, a credential helper or known_hosts, and try it with git ls-remote"
    if "format" in kinds:
        return "only repositories of the SHA-1 object format are supported"
    return "run it again when the server answers, or name a mirror in DERIVE_MIRROR_GIT"
