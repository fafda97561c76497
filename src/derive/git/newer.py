# SPDX-License-Identifier: Apache-2.0
"""What an upstream calls things now, beside what is pinned: newer tags, and where its branch stands.

Edge: git, the network. Nothing is fetched but names.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from derive.git.failures import GitFailure, Subject
from derive.git.places import Place, places
from derive.git.program import Session
from derive.git.scratch import Names, Scratch, first_that_gives

_NUMBERED = re.compile(r"(?P<before>\D*)(?P<numbers>\d+(?:[._]\d+)*)(?P<after>.*)")


class Seen(Protocol):
    """What is known of an upstream; a ``GitPin`` is one."""

    @property
    def name(self) -> str:
        """The upstream's name."""

    @property
    def commit(self) -> str:
        """The commit that is pinned, or was seen last."""

    @property
    def tag(self) -> str | None:
        """The tag that was followed."""

    @property
    def branch(self) -> str | None:
        """The branch that was followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewerGit:
    """What an upstream has now.

    ``tags``: newer ones of the same pattern as the pinned tag, oldest first. ``branch``: the one followed, else the
    default one; ``branch_commit``: where it stands. ``tag_commit``: where the pinned tag leads now; ``newest_tag``:
    the latest version among all tags. Each is None where there is none any more.
    """

    name: str
    commit: str
    tags: tuple[str, ...]
    branch: str | None
    branch_commit: str | None
    tag: str | None
    tag_commit: str | None
    newest_tag: str | None = None

    @property
    def branch_moved(self) -> bool:
        """Say whether the branch that is followed stands elsewhere than the pin."""
        return self.tag is None and self.branch_commit != self.commit

    @property
    def tag_moved(self) -> bool:
        """Say whether the pinned tag leads elsewhere than it did, or is gone: upstreams should not do that."""
        return self.tag is not None and self.tag_commit != self.commit

    @property
    def moved(self) -> bool:
        """Say whether there is anything to tell."""
        return bool(self.tags) or self.branch_moved or self.tag_moved


def find_newer_git(
    urls: Sequence[str], seen: Seen, *, mirrors: Sequence[str] = (), session: Session | None = None
) -> NewerGit:
    """Ask an upstream for its names, and compare them with a pin.

    Raises:
        UpstreamGone, Unavailable: nobody answers.
    """
    session = session or Session()
    subject = Subject(name=seen.name, what="branches and tags")
    with tempfile.TemporaryDirectory(prefix="derive-git-") as folder:
        scratch = Scratch(session, Path(folder) / "names", seen.name)

        def ask(place: Place) -> Names:
            names = scratch.names(place)
            if not names.ids:
                raise GitFailure("no-ref", "has no branches and tags")
            return names if seen.branch is not None else Names(names.ids, scratch.names(place, "HEAD").head)

        _, names = first_that_gives(places(urls, mirrors, seen.name), subject, ask)
    branch = seen.branch if seen.branch is not None else names.head
    return NewerGit(
        name=seen.name,
        commit=seen.commit,
        tags=newer_tags(seen.tag, _tags(names)) if seen.tag is not None else (),
        branch=branch,
        branch_commit=names.ids.get(f"refs/heads/{branch}"),
        tag=seen.tag,
        tag_commit=names.ids.get(f"refs/tags/{seen.tag}^{{}}", names.ids.get(f"refs/tags/{seen.tag}")),
        newest_tag=newest_tag(_tags(names)),
    )


def newest_tag(tags: Iterable[str]) -> str | None:
    """Return the tag with the highest version that is no candidate, or None."""
    versions = [(version.order, tag) for tag in tags if (version := _version(tag)) is not None and version.final]
    return max(versions, default=(None, None))[1]


def newer_tags(tag: str, tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags that are later versions of a tag, oldest first.

    The text around the version must be the same: ``v1.2`` is followed by ``v1.10``, not by ``2.0`` or ``v2.0rc1``.
    ``v1.0rc1`` is followed by ``v1.0rc2`` and by ``v1.0``.
    """
    own = _version(tag)
    if own is None:
        return ()
    found = []
    for other in tags:
        version = _version(other)
        if version is None or version.before != own.before or version.order <= own.order:
            continue
        if version.after == own.after or (not own.final and not version.after):
            found.append((version.order, other))
    return tuple(other for _, other in sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    """A tag's version: its numbers, the text before and after them, digits in that as ``#``, and the digits."""

    before: str
    numbers: tuple[int, ...]
    after: str
    rest: tuple[int, ...]

    @property
    def final(self) -> bool:
        """Say whether it is no candidate for a later version."""
        return not re.search(r"[A-Za-z]", self.after)

    @property
    def order(self) -> tuple[tuple[int, ...], bool, tuple[int, ...]]:
        return (self.numbers, self.final, self.rest)


def _version(tag: str) -> _Version | None:
    match = _NUMBERED.fullmatch(tag)
    if match is None:
        return None
    numbers = list(_numbers(match["numbers"]))
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    after = match["after"]
    return _Version(
        before=match["before"], numbers=tuple(numbers), after=re.sub(r"\d+", "#", after), rest=_numbers(after)
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", text))


def _tags(names: Names) -> list[str]:
    prefix = "refs/tags/"
    return [ref.removeprefix(prefix) for ref in names.ids if ref.startswith(prefix) and not ref.endswith("^{}")]
