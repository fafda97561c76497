# SPDX-License-Identifier: Apache-2.0
"""The proof that a tree is a commit's, checked from the tree's contents alone, at any time and with no network.

Core: no IO of its own; it reads contents through the store that it is given.

A proof holds what the contents do not say: the commit object, the tag objects that lead to it, the commits of
submodules, and modes that git no longer writes. Hashing the contents as git does must then give the tree that the
commit names. The document is on docs/upstreams.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from derive.canonical import CanonicalError, Json, decode, encode, escape, unescape
from derive.errors import Corrupt, expected_got
from derive.git.objects import ObjectError, commit_id, object_id, parse_tag, tree_ids, tree_of
from derive.store.protocol import Store
from derive.trees.listing import Directory, Listing

TAG = "git-proof/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitProof:
    """What binds a tree to a commit.

    ``commit``: the raw commit object. ``tags``: raw tag objects, each pointing at the next, the last at the commit.
    ``links``: path -> commit of every submodule. ``submodules``: path -> raw commit object of those whose contents lie
    in the tree. ``modes``: path -> mode as the tree object has it, where git writes another today.
    """

    commit: bytes
    tags: tuple[bytes, ...] = ()
    links: Mapping[bytes, str] = field(default_factory=dict)
    submodules: Mapping[bytes, bytes] = field(default_factory=dict)
    modes: Mapping[bytes, bytes] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return the canonical bytes of the proof's document."""
        return encode(
            {
                "derive": TAG,
                "commit": escape(self.commit),
                "tags": [escape(raw) for raw in self.tags],
                "links": {escape(path): commit for path, commit in self.links.items()},
                "submodules": {escape(path): escape(raw) for path, raw in self.submodules.items()},
                "modes": {escape(path): mode.decode("ascii") for path, mode in self.modes.items()},
            }
        )


def parse_proof(data: bytes) -> GitProof:
    """Read a proof; raises Corrupt when it is none."""
    try:
        document = _document(decode(data))
        return GitProof(
            commit=_raw(document["commit"]),
            tags=tuple(map(_raw, _list(document["tags"]))),
            links={path: _text(item) for path, item in _by_path(document["links"])},
            submodules={path: _raw(item) for path, item in _by_path(document["submodules"])},
            modes={path: _text(item).encode("ascii") for path, item in _by_path(document["modes"])},
        )
    except (CanonicalError, UnicodeEncodeError) as error:
        raise Corrupt("a git proof cannot be read", detail=[str(error)]) from error


def check_proof(store: Store, tree_listing: Listing, proof_bytes: bytes, commit: str) -> None:
    """Prove that a tree is a commit's, its submodules included.

    Raises:
        Corrupt: with what was expected and what was found, at the first step that does not hold.
        Missing: when contents are not in the store.
    """
    proof = parse_proof(proof_bytes)
    _same("the proof is of another commit", commit, commit_id(proof.commit))
    try:
        check_tags(proof.tags, commit)
        for path, link in proof.links.items():
            if path not in proof.submodules:
                _check_empty(tree_listing, path)
            else:
                _same(f"submodule {escape(path)}", link, commit_id(proof.submodules[path]))
        stray = sorted(set(proof.submodules) - set(proof.links))
        if stray:
            raise Corrupt("a git proof names a submodule that is none", detail=[escape(path) for path in stray])
        found = tree_ids(tree_listing, lambda _, file: store.read(file), proof.links, proof.modes)
        for path, raw in proof.submodules.items():
            _same(f"the contents of submodule {escape(path)}", tree_of(raw), found.submodules[path])
        _same(f"the contents are not those of commit {commit}", tree_of(proof.commit), found.top)
    except ObjectError as error:
        raise Corrupt(f"a git proof does not hold: {error}") from error


def check_tags(tags: tuple[bytes, ...], commit: str) -> None:
    """Prove that tag objects lead to a commit; raises Corrupt and ObjectError."""
    target = commit
    for raw in reversed(tags):
        _same("a tag object leads elsewhere", target, parse_tag(raw).object)
        target = object_id("tag", raw)


def _check_empty(listing: Listing, path: bytes) -> None:
    inside = [below for below in listing if below.startswith(path + b"/")]
    if inside or not isinstance(listing.get(path), Directory):
        what = "nothing" if path not in listing else "contents"
        raise Corrupt(f"submodule {escape(path)}", detail=expected_got("an empty folder", what))


def _same(what: str, expected: str, got: str) -> None:
    if expected != got:
        raise Corrupt(what, detail=expected_got(expected, got))


def _document(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict) or value.get("derive") != TAG:
        raise CanonicalError(f"no document of the kind {TAG}")
    if value.keys() != {"derive", "commit", "tags", "links", "submodules", "modes"}:
        raise CanonicalError("other keys than a proof has")
    return value


def _list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise CanonicalError(f"not a list: {value!r}")
    return value


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise CanonicalError(f"not a text: {value!r}")
    return value


def _raw(value: Json) -> bytes:
    return unescape(_text(value))


def _by_path(value: Json) -> list[tuple[bytes, Json]]:
    if not isinstance(value, dict):
        raise CanonicalError(f"not a table of paths: {value!r}")
    return [(unescape(path), item) for path, item in cast("dict[str, Json]", value).items()]
