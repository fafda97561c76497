# SPDX-License-Identifier: Apache-2.0
"""A scratch repository for one upstream: its names asked for, one commit brought, by id where the server allows it.

Edge: git, the file system.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from derive.errors import Corrupt, Interrupted, expected_got
from derive.git.failures import GitFailure, Subject, Tried, no_answer, no_space
from derive.git.objects import parse_tag
from derive.git.places import Place
from derive.git.program import Git, Session
from derive.git.proof import check_tags
from derive.git.reader import ObjectReader

_FETCH = (
    *("fetch", "--progress", "--force", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"),
    "--no-auto-maintenance",
)
_TRACE = "GIT_TRACE2_EVENT"

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Names:
    """What a server calls things: ref -> id, and the branch that HEAD stands for."""

    ids: dict[str, str]
    head: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A commit, and where to look for it on a server that gives none by its id.

    ``depth``: commits to fetch in a row, itself and parents. ``tag_object``: fetched with it where it is still there.
    """

    commit: str
    depth: int = 1
    tag: str | None = None
    branch: str | None = None
    tag_object: str | None = None


class Scratch:
    """One bare repository in a folder of its own; ``name`` is what progress calls its transfers."""

    def __init__(self, session: Session, folder: Path, name: str) -> None:
        self.session = session
        self.name = name
        self.git = Git(session, folder)
        self.git.init()

    def names(self, place: Place, *patterns: str) -> Names:
        """Return those of a server's refs that are called so, tags with what they lead to (``^{}``).

        Without patterns all its branches and tags, and no others: a host may keep a ref for each change ever proposed.

        Raises:
            GitFailure: it does not answer, or has another object format.
        """
        which = ("--symref",) if patterns else ("--heads", "--tags")
        said = self._asking(place, lambda: self.git.remote(place, "ls-remote", *which, "--", place.url, *patterns))
        ids: dict[str, str] = {}
        head = None
        for line in said.decode("utf-8", "surrogateescape").splitlines():
            value, _, ref = line.partition("\t")
            if value.startswith("ref: refs/heads/") and ref == "HEAD":
                head = value.removeprefix("ref: refs/heads/")
            elif len(value) == 64:
                raise GitFailure("format", "a repository of the SHA-256 object format")
            elif len(value) == 40:
                ids[ref] = value
        return Names(ids, head)

    def bring(self, place: Place, sought: Sought) -> str | None:
        """Fetch one commit with its tree; return what a person should know of how, if anything.

        Raises:
            GitFailure: this place does not give it.
        """
        if sought.tag_object is not None:
            try:
                self._fetch(place, sought.commit, sought.tag_object, depth=sought.depth)
            except GitFailure as failure:
                if failure.kind not in ("refused-id", "dumb", "no-commit"):
                    raise
            else:
                return None
        try:
            self._fetch(place, sought.commit, depth=sought.depth)
        except GitFailure as failure:
            if failure.kind not in ("refused-id", "dumb"):
                raise
        else:
            return None
        return self._look_for(place, sought)

    def has_commit(self, place: Place, commit: str) -> bool:
        """Say whether a server gives a commit by its id: the commit alone is fetched, where it leaves trees out.

        Raises:
            GitFailure: it does not answer.
        """
        asked = (*_FETCH, "--depth=1", "--filter=tree:0", "--", place.url, f"+{commit}:refs/derive/{commit}")
        try:
            self._asking(place, lambda: self.git.remote(place, *asked, name=self.name))
        except GitFailure as failure:
            if failure.kind in ("refused-id", "dumb"):
                return commit in self.names(place).ids.values()
            raise
        return True

    def bring_tags(self, place: Place, tag_object: str, commit: str) -> tuple[bytes, ...]:
        """Fetch an annotated tag by its id; return the tag objects from it to the commit.

        Raises:
            GitFailure: this place does not give it any more.
            Corrupt: it leads to another commit.
        """
        if not self._has(tag_object, "tag"):
            self._fetch(place, tag_object, depth=1)
        raws: list[bytes] = []
        with self.reader() as reader:
            following, kind = tag_object, "tag"
            while kind == "tag":
                raws.append(reader.read("tag", following))
                parsed = parse_tag(raws[-1])
                following, kind = parsed.object, parsed.kind
        if kind != "commit" or following != commit:
            raise Corrupt(f"{self.name}: a tag leads elsewhere", detail=expected_got(commit, f"{kind} {following}"))
        check_tags(tuple(raws), commit)
        return tuple(raws)

    def reader(self) -> ObjectReader:
        """Begin to read objects; use it as a context manager."""
        return ObjectReader(self.git)

    def _look_for(self, place: Place, sought: Sought) -> str:
        """Fetch what is named with all history until the commit is there; say what it took."""
        ref = f"refs/tags/{sought.tag}" if sought.tag else f"refs/heads/{sought.branch}" if sought.branch else None
        for wanted in (ref, "refs/*"):
            if wanted is None:
                continue
            with suppress(_NoRef):
                self._fetch_whole(place, wanted)
            if self._has(sought.commit):
                what = "every branch and tag" if wanted == "refs/*" else wanted.removeprefix("refs/")
                return f"{place.shown} gives no commit by its id: {what} was fetched with all history"
        raise GitFailure("no-commit", "gives no commit by its id, and none of its branches and tags reaches this one")

    def _has(self, name: str, kind: str = "commit") -> bool:
        try:
            self.git.local("cat-file", "-e", f"{name}^{{{kind}}}")
        except GitFailure:
            return False
        return True

    def _fetch(self, place: Place, *names: str, depth: int) -> None:
        """Fetch objects by their ids."""
        trace = self.git.folder / "trace"
        trace.unlink(missing_ok=True)
        arguments = (*_FETCH, f"--depth={depth}", "--", place.url, *(f"+{name}:refs/derive/{name}" for name in names))

        def once() -> bytes:
            try:
                return self.git.remote(place, *arguments, name=self.name, variables={_TRACE: str(trace)})
            except GitFailure as failure:
                if failure.kind == "refused-id" and "not our ref" in failure.reason and _protocol(trace) >= 2:
                    # In this protocol every commit is given that is there at all.
                    raise GitFailure("no-commit", "has no such commit") from failure
                raise

        self._asking(place, once)

    def _fetch_whole(self, place: Place, ref: str) -> None:
        target = "refs/derive/all/*" if ref.endswith("*") else "refs/derive/tracked"
        arguments = (*_FETCH, "--", place.url, f"+{ref}:{target}")
        try:
            self._asking(place, lambda: self.git.remote(place, *arguments, name=self.name))
        except GitFailure as failure:
            if failure.kind == "no-ref":
                raise _NoRef from failure
            raise

    def _asking(self, place: Place, act: Callable[[], bytes]) -> bytes:
        """Do what asks a server, again where the transfer broke off, and not at all where its host is down."""
        session = self.session
        session.check_up(place)
        for attempt in range(session.attempts):
            try:
                return act()
            except GitFailure as failure:
                if failure.kind == "silent":
                    session.mark_down(place, failure.reason)
                if failure.kind != "transient" or attempt + 1 == session.attempts:
                    raise
            if session.cancel.wait(session.pause_s * 2**attempt):
                break
        raise Interrupted("stopped")


class _NoRef(Exception):
    """The server has no such branch or tag."""


def _protocol(trace: Path) -> int:
    """Return which version of git's protocol was spoken, as git's own trace of a command tells; 0 when it does not."""
    with suppress(OSError, ValueError):
        for line in trace.read_text(encoding="utf-8", errors="replace").splitlines():
            if '"negotiated-version"' in line:
                return int(json.loads(line)["value"])
    return 0


def first_that_gives(
    places: Sequence[Place], subject: Subject, attempt: Callable[[Place], Answer]
) -> tuple[Place, Answer]:
    """Ask places in order until one gives what is wanted.

    Raises:
        UpstreamGone: all answer, and none has it.
        Unavailable: it cannot be had now.
        HostRefuses: no space is left on this machine.
    """
    tried: list[Tried] = []
    for place in places:
        try:
            return place, attempt(place)
        except GitFailure as failure:
            if failure.kind == "space":
                raise no_space(subject.name) from failure
            tried.append(Tried(shown=place.shown, failure=failure))
    raise no_answer(subject, tried)
