# SPDX-License-Identifier: Apache-2.0
"""A git upstream out of an archive: its tree as a NAR, and the proof that the tree is the commit's.

Edge: archives through the fetcher, the store.

Nothing that an archive says is believed: the NAR has the hash that the lock names, and the proof is worked through
before anything is registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.canonical import escape
from derive.errors import Corrupt, Unavailable, expected_got
from derive.git.model import FetchedGit, GitWanted
from derive.git.objects import commit_id, object_id, tree_of
from derive.git.proof import GitProof, check_proof, parse_proof
from derive.store.local import LocalStore
from derive.trees.nar_read import locate_nar

if TYPE_CHECKING:
    from derive.net.fetch import Fetcher


def fetch_archived(store: LocalStore, fetcher: Fetcher, wanted: GitWanted) -> FetchedGit:
    """Bring what is pinned from the archives alone.

    Raises:
        Unavailable: no archive has the tree, or none says what proves it.
        Corrupt: the proof, or what it proves, is not what the lock names.
    """
    what = f"{wanted.name} at {wanted.commit[:12]}"
    proof = fetcher.archived_proof(wanted.nar)
    if proof is None:
        raise Unavailable(
            f"{what}: no archive has its tree with the proof of its commit",
            detail=[f"wanted    nar:{wanted.nar}"],
            hint="name a capsule that was made with it as an archive, in DERIVE_ARCHIVES",
        )
    fetcher.fetch_blob(proof, None, f"{what}, its proof")
    fetcher.fetch_blob(wanted.nar, None, f"{what}, its tree")
    listing = locate_nar(store.read_blob(wanted.nar), wanted.nar)
    data = b"".join(store.read_blob(proof))
    check_proof(store, listing, data, wanted.commit)
    _check_pins(wanted, parse_proof(data))
    return FetchedGit(tree=store.add_listing(listing), proof=proof, url="an archive")


def _check_pins(wanted: GitWanted, proof: GitProof) -> None:
    """Compare a proof that holds with every other id that the lock names; a tag may have gone since."""
    _same(wanted, "the commit's tree", wanted.tree, tree_of(proof.commit))
    pinned = {pin.path: (pin.commit, pin.tree) for pin in wanted.submodules}
    found = {escape(path): (commit_id(raw), tree_of(raw)) for path, raw in proof.submodules.items()}
    for path in sorted(pinned.keys() | found.keys()):
        _same(wanted, f"submodule {path}", pinned.get(path, "none"), found.get(path, "none"))
    if proof.tags and wanted.tag_object is not None:
        _same(wanted, "the tag object", wanted.tag_object, object_id("tag", proof.tags[0]))


def _same(wanted: GitWanted, what: str, expected: object, got: object) -> None:
    if expected != got:
        hint = "the lock was edited, or the capsule is of another release: compare with the upstream"
        raise Corrupt(
            f"{wanted.name}: {what} is not the one that the lock names", detail=expected_got(expected, got), hint=hint
        )
