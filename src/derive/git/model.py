# SPDX-License-Identifier: Apache-2.0
"""A git upstream as wanted, as pinned, and as fetched: names and ids, no host.

Core: no IO.

``GitRequest`` (what a wish says) -> ``GitPin`` (what a lock holds) -> ``FetchedGit`` (what lies in the store).
Paths are text in the escape of :func:`derive.canonical.escape`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from derive.canonical import Digest, unescape
from derive.trees.listing import check_path

_ID = re.compile(r"[0-9a-f]{40}")
_LONG_ID = re.compile(r"[0-9a-f]{64}")
# What git check-ref-format refuses, and a few characters that no one needs in a wish.
_NOT_IN_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|^[-/.]|[/.]$|^@$")

_SHORT = re.compile(r"([^/:@]+@)?(\[[0-9A-Fa-f:]+\]|[^-/:@][^/:@]*):(?!:|//).+")
_AUTHORITY = re.compile(r"(.*@)?(\[[0-9A-Fa-f:.]+\]|[^:@]*)(:[0-9]*)?")

SCHEMES = ("https", "http", "ssh", "git", "file")


def check_id(text: str, what: str) -> str:
    """Return an object id of 40 lower-case hex digits; raises ValueError naming what it should have been."""
    if _LONG_ID.fullmatch(text):
        raise ValueError(f"{what}: a git repository of the SHA-256 object format is not supported: {text}")
    if not _ID.fullmatch(text):
        raise ValueError(f"{what}: not 40 lower-case hexadecimal digits: {text!r}")
    return text


def check_ref(text: str, what: str) -> str:
    """Return the name of a branch or tag, without ``refs/``; raises ValueError."""
    if not text or _NOT_IN_REF.search(text) or text.startswith("refs/"):
        raise ValueError(f"{what}: not the name of a branch or tag: {text!r}")
    return text


def check_url(text: str) -> str:
    """Return a URL that git may be given: https, http, ssh, git, ``host:path``, or a folder by its absolute path.

    Raises:
        ValueError: on any other, and on one that a program could take for an option.
    """
    scheme, found, rest = text.partition("://")
    if text.startswith("-") or any(ord(letter) < 0x21 or ord(letter) == 0x7F for letter in text):
        raise ValueError("not a URL: it has blanks or other odd characters, or begins with a hyphen")
    if found:
        if scheme.lower() not in SCHEMES or not rest or rest.startswith("-"):
            raise ValueError(f"a URL of none of the kinds that git is given here: {', '.join(SCHEMES)}")
        if not _AUTHORITY.fullmatch(rest.partition("/")[0]):
            raise ValueError("a URL whose port is no number (a slash in a password is written %2F)")
    elif not text.startswith("/") and not _SHORT.fullmatch(text):
        raise ValueError("neither a URL, host:path nor an absolute path")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class GitRequest:
    """What a wish asks of a git upstream.

    ``urls``: where it may be had, tried in order, the upstream's own last. ``mirrors``: base URLs that are tried before
    those, for it and for its submodules. At most one of ``tag`` and ``branch``; with none of ``commit``, ``tag`` and
    ``branch`` the upstream's default branch is followed. A branch or tag beside a commit says where to look for it.
    ``submodule_urls``: escaped path -> URL, instead of what ``.gitmodules`` says.
    """

    name: str
    urls: tuple[str, ...]
    commit: str | None = None
    tag: str | None = None
    branch: str | None = None
    submodules: bool = False
    submodule_urls: Mapping[str, str] = field(default_factory=dict)
    mirrors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.urls:
            raise ValueError(f"{self.name}: a git upstream needs a URL")
        if self.tag is not None and self.branch is not None:
            raise ValueError(f"{self.name}: a tag and a branch, where one of them decides")
        if self.commit is not None:
            check_id(self.commit, "commit")
        for what, value in (("tag", self.tag), ("branch", self.branch)):
            if value is not None:
                check_ref(value, what)
        for path, url in self.submodule_urls.items():
            _check_below(path)
            check_url(url)
        for url in (*self.urls, *self.mirrors):
            check_url(url)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SubmodulePin:
    """A submodule that is fetched: its escaped path from the top, its commit and that commit's git tree."""

    path: str
    commit: str
    tree: str

    def __post_init__(self) -> None:
        _check_below(self.path)
        check_id(self.commit, f"{self.path}: commit")
        check_id(self.tree, f"{self.path}: tree")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitWanted:
    """A commit by every name that its contents have: what a fetch must give.

    ``commit`` and ``tree``: 40 hex digits. ``nar``: the tree digest of the whole, submodules included. ``submodules``:
    those fetched, sorted by path; any other is an empty folder. ``tag``, ``branch``: where it was found, and is looked
    for where a server refuses ids; ``tag_object``: the id of the annotated tag, None for a light one.
    """

    name: str
    commit: str
    tree: str
    nar: Digest
    tag: str | None = None
    branch: str | None = None
    tag_object: str | None = None
    submodules: tuple[SubmodulePin, ...] = ()

    def __post_init__(self) -> None:
        check_id(self.commit, "commit")
        check_id(self.tree, "tree")
        if self.tag_object is not None:
            check_id(self.tag_object, "tag object")
        for what, value in (("tag", self.tag), ("branch", self.branch)):
            if value is not None:
                check_ref(value, what)
        paths = [pin.path for pin in self.submodules]
        if paths != sorted(set(paths)):
            raise ValueError(f"{self.name}: submodules are not sorted by path, or one stands twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitPin(GitWanted):
    """What a lock holds of a git upstream, the same wherever it was fetched from.

    ``size``: bytes of all files. ``lfs``: escaped paths of files that are Git LFS pointers; their contents are the
    pointers, as git keeps them.
    """

    size: int
    lfs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedGit:
    """What a fetch left in the store: the tree, and the blob that proves offline that it is that commit's.

    ``url``: where it came from, as it may be shown. ``notes``: what a person should know, such as a server that refused
    ids.
    """

    tree: Digest
    proof: Digest
    url: str
    notes: tuple[str, ...] = ()


def _check_below(path: str) -> None:
    raw = unescape(path)
    check_path(raw)
    if not raw:
        raise ValueError("a submodule lies below the top")
