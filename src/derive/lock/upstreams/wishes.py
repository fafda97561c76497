# SPDX-License-Identifier: Apache-2.0
"""What stands in a ``lock/<set>.toml`` of kind ``upstreams``: a table for each upstream, by what serves it.

Core: no IO. Imports pydantic.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from derive.canonical import Digest, Json, digest_document
from derive.content import Keyed
from derive.errors import InputErrors
from derive.git.model import check_id, check_ref
from derive.huggingface.model import is_repository, is_revision
from derive.patches.series import licence_expression

_NAME = re.compile(r"[a-z0-9][a-z0-9._+-]*")
_SCHEMES = {"http", "https", "ssh", "git"}
_SCP = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9._-]+:.+")

PROMISES = frozenset({"role", "fork", "track", "unpinned", "reason", "licence"})
"""Keys that decide no byte: who an upstream is to us, and why something is as it is."""


def _git_url(text: str) -> str:
    if not (_SCP.fullmatch(text) or (urlsplit(text).scheme in _SCHEMES and urlsplit(text).path.strip("/"))):
        raise ValueError("not the URL of a git repository: https, http, ssh, git or user@host:path")
    return _no_password(text)


def _http_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or not parts.path.strip("/"):
        raise ValueError("not a URL that HTTP reaches")
    return _no_password(text)


def _no_password(text: str) -> str:
    if re.match(r"[a-z]+://[^/@]*:[^/@]*@", text):
        raise ValueError("holds a password: credentials belong in this user's own settings")
    return text


def _commit(text: str) -> str:
    return check_id(text, "commit")


def _ref(text: str) -> str:
    return check_ref(text, "name")


def _repository(text: str) -> str:
    if not is_repository(text):
        raise ValueError("not a repository, as in owner/name")
    return text


def _revision(text: str) -> str:
    return text if is_revision(text) else check_ref(text, "revision")


def _reference(text: str) -> str:
    from derive.oci.reference import parse_reference

    try:
        parse_reference(text)
    except InputErrors as error:
        raise ValueError(error.problems()[0].message) from error
    return text


def _licence(text: str) -> str:
    return text if re.fullmatch(r"LicenseRef-[A-Za-z0-9.-]+", text) else licence_expression(text)


Commit: TypeAlias = Annotated[str, AfterValidator(_commit)]
Ref: TypeAlias = Annotated[str, AfterValidator(_ref)]
GitUrl: TypeAlias = Annotated[str, AfterValidator(_git_url)]
Reason: TypeAlias = Annotated[str, Field(min_length=1)]
ImagePlatform: TypeAlias = Literal["linux/amd64", "linux/arm64"]


class UpstreamDecl(Keyed):
    """What every upstream has. ``unpinned`` says why its contents are not locked yet: what needs them is refused."""

    licence: Annotated[str, AfterValidator(_licence)]
    role: str = ""
    unpinned: Reason | None = None


class PickDecl(Keyed):
    """A commit of the upstream that is applied on top of the pinned one, and why."""

    commit: Commit
    reason: Reason


class GitDecl(UpstreamDecl):
    """A git repository at a commit, a tag, or the tip of a branch when it is locked.

    ``fork`` is where our contributions are pushed; ``track`` the branch whose moves are told, if not ``branch``;
    ``picks`` upstream commits that are cherry-picked, in order.
    """

    url: GitUrl
    commit: Commit | None = None
    tag: Ref | None = None
    branch: Ref | None = None
    version: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9.+~_-]*$")
    submodules: bool = False
    submodule_urls: dict[str, GitUrl] = Field(default_factory=dict)
    fork: GitUrl | None = None
    track: Ref | None = None
    picks: tuple[PickDecl, ...] = ()

    @model_validator(mode="after")
    def _fits(self) -> GitDecl:
        if self.tag is not None and self.branch is not None:
            raise ValueError("a tag and a branch: name one of them")
        if self.submodule_urls and not self.submodules:
            raise ValueError("submodule-urls without submodules = true")
        commits = [pick.commit for pick in self.picks]
        twice = sorted({commit for commit in commits if commits.count(commit) > 1})
        if twice:
            raise ValueError(f"picked twice: {', '.join(twice)}")
        return self


class UrlDecl(UpstreamDecl):
    """A file at a URL; ``sha256`` where the upstream states it."""

    url: Annotated[str, AfterValidator(_http_url)]
    version: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+~_-]*$")
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


class OciDecl(UpstreamDecl):
    """An image of a registry, ``name/repository:tag`` or ``...@sha256:<hex>``; the registry's host is configuration."""

    reference: Annotated[str, AfterValidator(_reference)]
    platforms: Annotated[tuple[ImagePlatform, ...], Field(min_length=1)]


class HuggingFaceDecl(UpstreamDecl):
    """A model or data set at a revision: a commit, or a branch or tag whose commit is locked.

    ``known`` has the SHA-256 of files, by path, that others state in public: usable before the rest is pinned, and what
    is served must agree with them.
    """

    repository: Annotated[str, AfterValidator(_repository)]
    revision: Annotated[str, AfterValidator(_revision)] | None = None
    contents: Literal["model", "dataset"] = "model"
    known: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _revision_or_reason(self) -> HuggingFaceDecl:
        if self.revision is None and self.unpinned is None:
            raise ValueError("no revision: name one, or say with unpinned why it is not known")
        return self


class WatchDecl(Keyed):
    """A repository that is read and not built. ``since`` (a date) says when it came on the list."""

    url: GitUrl
    role: Reason
    since: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    branch: Ref | None = None


class UpstreamsWish(Keyed):
    """A set of upstreams. Names are distinct over all tables but ``watch``."""

    kind: Literal["upstreams"]
    git: dict[str, GitDecl] = Field(default_factory=dict)
    url: dict[str, UrlDecl] = Field(default_factory=dict)
    oci: dict[str, OciDecl] = Field(default_factory=dict)
    huggingface: dict[str, HuggingFaceDecl] = Field(default_factory=dict)
    watch: dict[str, WatchDecl] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_fit(self) -> UpstreamsWish:
        names = [name for table in (self.git, self.url, self.oci, self.huggingface) for name in table]
        if not names and not self.watch:
            raise ValueError("nothing is wanted: name an upstream")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"named twice: {', '.join(twice)}")
        odd = [name for name in (*names, *self.watch) if not _NAME.fullmatch(name)]
        if odd:
            raise ValueError(f"not names (lower-case letters, digits and . _ + -): {', '.join(odd)}")
        return self

    @property
    def wanted(self) -> dict[str, GitDecl | UrlDecl | OciDecl | HuggingFaceDecl]:
        """Every upstream that is built from, by name."""
        return {**self.git, **self.url, **self.oci, **self.huggingface}


def asked(name: str, decl: GitDecl | UrlDecl | OciDecl | HuggingFaceDecl) -> Digest:
    """Return the digest of what is asked of one upstream: an entry of the lock stands as long as this does."""
    table: dict[str, Any] = decl.model_dump(by_alias=True, exclude_defaults=True)
    found: Json = _decisive(table)
    return digest_document({"derive": "upstream/1", "name": name, "type": type(decl).__name__, "asked": found})


def decisive(wish: UpstreamsWish) -> dict[str, Json]:
    """Return what a set's digest covers: what is asked of each upstream, and nothing of the watch list."""
    found: dict[str, Json] = {
        name: {"asked": asked(name, decl).hex, "licence": decl.licence, "pinned": decl.unpinned is None}
        for name, decl in sorted(wish.wanted.items())
    }
    return {"upstreams": found}


def _decisive(value: Any) -> Json:
    if isinstance(value, dict):
        return {key: _decisive(item) for key, item in value.items() if key not in PROMISES}
    if isinstance(value, list | tuple):
        return [_decisive(item) for item in value]  # the order of picks decides
    result: Json = value
    return result
