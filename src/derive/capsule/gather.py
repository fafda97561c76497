# SPDX-License-Identifier: Apache-2.0
"""Collects from a store what a capsule is to hold, and reads it from there.

Edge: the store, read alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from derive.canonical import Digest, sha256
from derive.capsule.inputs import Contents, Input
from derive.capsule.model import PROOF, CapsuleDocument, Use, parts_of
from derive.derivations.model import FlatOutput, TreeOutput, parse_output
from derive.git.proof import parse_proof
from derive.images.oci import named_blobs
from derive.images.referrers import read_whole
from derive.store import graph
from derive.store.local import LocalStore
from derive.trees.listing import Listing
from derive.trees.nar import MAGIC_BYTES, frames, nar_digest, serialise


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """A capsule whose every blob can be read from a store: documents, trees that become NARs, and files."""

    document: CapsuleDocument
    store: LocalStore
    texts: Mapping[Digest, bytes]
    trees: Mapping[Digest, Listing]

    def read(self, digest: Digest) -> Iterator[bytes]:
        """Yield a blob's bytes; whoever takes them hashes them. Raises Missing and Corrupt."""
        if digest in self.texts:
            yield self.texts[digest]
        elif digest in self.trees:
            yield from serialise(self.trees[digest], lambda _, file: self.store.read(file))
        else:
            yield from self.store.read_blob(digest)


def absent(store: LocalStore, inputs: Iterable[Input]) -> tuple[Input, ...]:
    """Return the inputs that a store does not hold; of a commit also its proof, of an image the blobs it names."""
    every = tuple(inputs)
    proofs = kept_proofs(store, every)
    return tuple(one for one in every if not _is_held(store, one, proofs))


def kept_proofs(store: LocalStore, inputs: Iterable[Input]) -> dict[Digest, bytes]:
    """Return the proof of each commit's tree that a store has fetched, without the tags.

    Whether a tag is still there depends on the day; all else in a proof follows from the commit.
    """
    trees = {one.digest.hex for one in inputs if one.is_commit}
    found: dict[Digest, bytes] = {}
    if not trees:
        return found
    known = graph.fetches(store.database, sorted(trees))
    rows = store.database.realisations(row.resolved for row in known.values())
    for nar, row in known.items():
        outputs = rows[row.resolved].outputs if row.resolved in rows else {}
        proof = parse_output(outputs["proof"]).digest if "proof" in outputs else None
        if proof is not None and store.has_blob(proof):
            found[Digest(nar)] = replace(parse_proof(read_whole(store, proof)), tags=()).encoded()
    return found


def gather(store: LocalStore, contents: Contents) -> Gathered:
    """Collect what a capsule holds; raises Missing when the store lost something meanwhile."""
    collected = _Collected(store, kept_proofs(store, contents.inputs))
    for one in contents.inputs:
        collected.add(one)
    for use, data in contents.texts.items():
        collected.add_text(use, data)
    document = CapsuleDocument(
        name=contents.name,
        release=contents.release,
        platforms=contents.platforms,
        engine=contents.engine,
        parts=parts_of(collected.found),
        trees=collected.proofs,
    )
    return Gathered(document=document, store=store, texts=collected.texts, trees=collected.trees)


def nar_size(listing: Listing) -> int:
    """Return the size in bytes of a tree's NAR, for which no contents are read."""
    framed = sum(len(head) + (file.size if file is not None else 0) for head, _, file in frames(listing))
    return MAGIC_BYTES + framed


@dataclass(slots=True)
class _Collected:
    """What was found so far."""

    store: LocalStore
    kept: Mapping[Digest, bytes]
    found: list[tuple[Use, Digest, int]] = field(default_factory=list)
    texts: dict[Digest, bytes] = field(default_factory=dict)
    trees: dict[Digest, Listing] = field(default_factory=dict)
    proofs: dict[Digest, Digest | None] = field(default_factory=dict)

    def add(self, one: Input) -> None:
        """Add an artifact."""
        if isinstance(one.output, TreeOutput):
            self._add_tree(one.use, one.output)
            return
        self._add_blob(one.use, one.digest)
        if one.is_image:
            for blob in named_blobs(read_whole(self.store, one.digest)):
                self._add_blob(one.use, blob.digest)

    def add_text(self, use: Use, data: bytes) -> Digest:
        """Add a document."""
        digest = sha256(data)
        self.texts[digest] = data
        self.found.append((use, digest, len(data)))
        return digest

    def _add_blob(self, use: Use, digest: Digest) -> None:
        self.found.append((use, digest, self.store.blob_size(digest)))

    def _add_tree(self, use: Use, output: TreeOutput) -> None:
        listing = self.store.listing(output.digest)
        nar = output.digest
        if output.identity != "nar":
            nar = nar_digest(listing, lambda _, file: self.store.read(file))
        self.trees[nar] = listing
        self.found.append((use, nar, nar_size(listing)))
        proof = self.kept.get(nar)
        self.proofs[nar] = None if proof is None else self.add_text(Use(kind=PROOF, name=use.name), proof)


def _is_held(store: LocalStore, one: Input, proofs: Mapping[Digest, bytes]) -> bool:
    match one.output:
        case TreeOutput(digest):
            return store.has_tree(digest) and (not one.is_commit or digest in proofs)
        case FlatOutput(digest):
            if not store.has_blob(digest):
                return False
            return not one.is_image or all(store.has_blob(b.digest) for b in named_blobs(read_whole(store, digest)))
