# SPDX-License-Identifier: Apache-2.0
"""Locking a set of upstreams: each one is asked by what serves it, and those that nothing asks to move stand.

Edge: the network, git, the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import unquote, urlsplit

from derive.canonical import Digest
from derive.errors import Corrupt, DeriveError, InputErrors, Problem, Unavailable, expected_got
from derive.git.model import GitRequest
from derive.huggingface.model import HfPin, is_revision
from derive.lock.keep import Keep, MoveNames, stays
from derive.lock.tools import Tools
from derive.lock.upstreams.entries import (
    GitEntry,
    HuggingFaceEntry,
    OciEntry,
    Pick,
    Upstream,
    UpstreamsLock,
    UrlEntry,
)
from derive.lock.upstreams.wishes import GitDecl, HuggingFaceDecl, OciDecl, UpstreamsWish, UrlDecl, asked
from derive.net.failures import Failure, Wrong, together
from derive.net.places import PlainUrl, Wanted, display

if TYPE_CHECKING:
    from derive.git.program import Session

Decl = GitDecl | UrlDecl | OciDecl | HuggingFaceDecl


def resolve_upstreams(
    wish: UpstreamsWish,
    *,
    digest: Digest,
    name: str,
    where: str,
    locked: UpstreamsLock | None,
    keep: Keep,
    tools: Tools,
) -> UpstreamsLock:
    """Find what each upstream is now. All are tried; what failed is told together, and nothing is kept then.

    Raises:
        InputErrors: what is asked cannot be, with its place in the wish.
        DeriveError: what those who serve it raise.
    """
    before = {} if locked is None else {entry.name: entry for entry in locked.upstreams}
    resolver = _Resolver(tools)
    found: list[Upstream] = []
    errors: list[DeriveError] = []
    for upstream, decl in sorted(wish.wanted.items()):
        old = before.get(upstream)
        if old is not None and stays(keep, upstream) and _stands(old, upstream, decl):
            found.append(old)
            continue
        named = isinstance(keep, MoveNames) and upstream in keep.names
        try:
            entry = _unpinned(upstream, decl) if decl.unpinned and not named else resolver.pin(upstream, decl)
            found.append(entry)
            _tell_moved_tag(old, entry, tools)
        except DeriveError as error:
            errors.append(_placed(error, f"{where}: {_table(decl)}.{upstream}"))
    if errors:
        raise _all_of(errors, len(wish.wanted))
    watched = () if locked is None else tuple(entry for entry in locked.watched if entry.name in wish.watch)
    return UpstreamsLock(set=name, wish=digest, upstreams=tuple(found), watched=watched)


def _tell_moved_tag(old: Upstream | None, new: Upstream, tools: Tools) -> None:
    """Say when a tag leads elsewhere than it did: a version that is the same is then another."""
    if not isinstance(old, GitEntry) or not isinstance(new, GitEntry) or old.pin is None or new.pin is None:
        return
    if old.pin.tag is not None and old.pin.tag == new.pin.tag and old.pin.commit != new.pin.commit:
        was, now = old.pin.commit[:12], new.pin.commit[:12]
        tools.progress.note(f"{new.name}: its tag {new.pin.tag} led to {was} when it was locked, and to {now} now")


def _stands(old: Upstream, name: str, decl: Decl) -> bool:
    """Say whether what was locked is still what is asked; a reason for being unpinned may have gone or come."""
    if old.asked != asked(name, decl) or old.licence != decl.licence:
        return False
    return old.unpinned is None or old.unpinned == decl.unpinned


def _unpinned(name: str, decl: Decl) -> Upstream:
    """Return the entry of what is not to be asked yet, with what the wish itself knows."""
    common = _common(name, decl)
    match decl:
        case GitDecl():
            version = decl.version or decl.tag or (decl.commit or "unpinned")[:12]
            return GitEntry(**common, version=version, unpinned=decl.unpinned, commit=decl.commit, pin=None)
        case UrlDecl():
            sha256 = None if decl.sha256 is None else Digest(decl.sha256)
            file = _file_of(decl.url)
            return UrlEntry(**common, version=decl.version, unpinned=decl.unpinned, file=file, size=0, sha256=sha256)
        case OciDecl():
            repository, _, tag = decl.reference.partition("@")[0].partition(":")
            version = tag or "unpinned"
            return OciEntry(**common, version=version, unpinned=decl.unpinned, repository=repository, pin=None)
        case HuggingFaceDecl():
            revision = decl.revision if decl.revision is not None and is_revision(decl.revision) else None
            return HuggingFaceEntry(
                **common,
                version=(revision or "unpinned")[:12],
                unpinned=decl.unpinned,
                repository=decl.repository,
                contents=decl.contents,
                revision=revision,
                files=None,
                known=_known(decl),
            )


@dataclass(slots=True)
class _Resolver:
    """Asks whoever serves an upstream."""

    tools: Tools
    session: Session | None = None

    def pin(self, name: str, decl: Decl) -> Upstream:
        match decl:
            case GitDecl():
                return self._git(name, decl)
            case UrlDecl():
                return self._url(name, decl)
            case OciDecl():
                return self._oci(name, decl)
            case HuggingFaceDecl():
                return self._huggingface(name, decl)

    def _git(self, name: str, decl: GitDecl) -> GitEntry:
        from derive.git.fetch import resolve_and_keep
        from derive.git.picks import commit_patch
        from derive.git.program import Session
        from derive.patches.parse import parse_patch

        if self.session is None:
            self.session = Session(progress=self.tools.progress)
        request = GitRequest(
            name=name,
            urls=(decl.url,),
            commit=decl.commit,
            tag=decl.tag,
            branch=decl.branch,
            submodules=decl.submodules,
            submodule_urls=decl.submodule_urls,
            mirrors=tuple(mirror.url for mirror in self.tools.mirrors.git()),
        )
        pin, fetched = resolve_and_keep(self.tools.store, request, session=self.session)
        self.tools.git[pin.nar] = fetched
        for path in pin.lfs:
            self.tools.progress.note(f"{name}: {path} is a Git LFS pointer, and stays one")
        picks = []
        for pick in decl.picks:
            patch = commit_patch(request, pick.commit, session=self.session)
            parse_patch(pick.commit, patch, where=f"{name}: commit {pick.commit[:12]}")
            picks.append(Pick(commit=pick.commit, patch=patch))
        return GitEntry(
            **_common(name, decl),
            version=decl.version or decl.tag or pin.commit[:12],
            commit=pin.commit,
            pin=pin,
            picks=tuple(picks),
        )

    def _url(self, name: str, decl: UrlDecl) -> UrlEntry:
        expected = None if decl.sha256 is None else Digest(decl.sha256)
        if expected is None:
            digest, size = self._hashed(name, decl.url)
            locator = PlainUrl(url=decl.url)
            self.tools.fetcher.note_served(
                Wanted(name=name, version=decl.version, locator=locator, sha256=digest, size=size)
            )
        else:
            wanted = Wanted(name=name, version=decl.version, locator=PlainUrl(url=decl.url), sha256=expected, size=None)
            digest = self.tools.fetcher.fetch(wanted, reuse=False)
            size = self.tools.store.blob_size(digest)
        return UrlEntry(**_common(name, decl), version=decl.version, file=_file_of(decl.url), size=size, sha256=digest)

    def _hashed(self, name: str, url: str) -> tuple[Digest, int]:
        """Fetch a file whose hash nobody has stated; from the beginning each time, since nothing tells pieces apart."""
        client = self.tools.fetcher.client

        def once() -> tuple[Digest, int]:
            with self.tools.store.blob_writer() as writer:
                with client.stream(url, offset=0, proxy=None) as (response, pieces):
                    for piece in pieces:
                        writer.write(piece)
                    length = response.headers.get("content-length", "")
                if length.isdigit() and int(length) != writer.size:
                    raise Wrong("served a file of another length than it says", ())
                return writer.commit(), writer.size

        try:
            return client.retry(url, once)
        except Failure as failure:
            raise Unavailable(f"{name}: {display(url)} could not be fetched: {failure.reason}") from failure

    def _oci(self, name: str, decl: OciDecl) -> OciEntry:
        from derive.oci.reference import parse_reference
        from derive.oci.registry import Registries
        from derive.oci.resolve import resolve_oci

        reference = parse_reference(decl.reference)
        registries = Registries(
            mirrors=self.tools.mirrors.oci(), client=self.tools.fetcher.client, progress=self.tools.progress
        )
        pin = resolve_oci(self.tools.store, registries, reference, decl.platforms)
        version = pin.tag or pin.images[0].manifest.digest.short
        return OciEntry(**_common(name, decl), version=version, repository=pin.repository, pin=pin)

    def _huggingface(self, name: str, decl: HuggingFaceDecl) -> HuggingFaceEntry:
        from derive.huggingface.hubs import Hubs
        from derive.huggingface.resolve import resolve_hf

        if decl.revision is None:
            raise InputErrors.one("no revision to pin", hint="write the revision into the wish")
        hubs = Hubs(
            mirrors=self.tools.mirrors.huggingface(), client=self.tools.fetcher.client, progress=self.tools.progress
        )
        pin = resolve_hf(self.tools.store, hubs, decl.repository, decl.revision, kind=decl.contents)
        _check_known(pin, _known(decl))
        return HuggingFaceEntry(
            **_common(name, decl),
            version=pin.revision[:12],
            repository=pin.repository,
            contents=pin.kind,
            revision=pin.revision,
            files=pin.files,
            known=_known(decl),
        )


class _Common(TypedDict):
    name: str
    licence: str
    asked: Digest


def _common(name: str, decl: Decl) -> _Common:
    return {"name": name, "licence": decl.licence, "asked": asked(name, decl)}


def _known(decl: HuggingFaceDecl) -> dict[str, Digest]:
    return {path: Digest(text) for path, text in sorted(decl.known.items())}


def _check_known(pin: HfPin, known: Mapping[str, Digest]) -> None:
    """Refuse a hub that serves other files than those whose hashes are public."""
    served = {file.path: file.sha256 for file in pin.files}
    for path, digest in known.items():
        if served.get(path) != digest:
            raise Corrupt(
                f"{pin.repository}: {path} is not the file that the wish knows",
                detail=expected_got(digest, served.get(path) or "no such file"),
                hint="ask another hub, or look where the known hash came from",
            )


def _file_of(url: str) -> str:
    return unquote(urlsplit(url).path).rstrip("/").rpartition("/")[2]


def _table(decl: Decl) -> str:
    match decl:
        case GitDecl():
            return "git"
        case UrlDecl():
            return "url"
        case OciDecl():
            return "oci"
        case HuggingFaceDecl():
            return "huggingface"


def _placed(error: DeriveError, where: str) -> DeriveError:
    if not isinstance(error, InputErrors):
        return error
    return InputErrors(
        [
            Problem(where=problem.where or where, message=problem.message, detail=problem.detail, hint=problem.hint)
            for problem in error.problems()
        ]
    )


def _all_of(errors: list[DeriveError], total: int) -> DeriveError:
    wrong = [problem for error in errors if isinstance(error, InputErrors) for problem in error.problems()]
    if wrong:
        return InputErrors(wrong)
    return together(sorted(errors, key=lambda error: error.message), total)
