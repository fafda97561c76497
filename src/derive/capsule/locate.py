# SPDX-License-Identifier: Apache-2.0
"""Looks for each input of a release wherever it may be today: store, project, archives, capsules, mirrors.

Edge: the store, capsules and archives of this machine, the network, git.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from derive.canonical import Digest, sha256
from derive.capsule.gather import absent, nar_size
from derive.capsule.hashing import digests_of
from derive.capsule.inputs import FACTS_FILE, RELEASE_FILE, Input, inputs_of
from derive.capsule.located import Derivability, Located, PlaceKind
from derive.capsule.model import CONTENT, FACTS, RECORD, RELEASE, Use
from derive.capsule.read import Capsule, open_capsule, proofs_of
from derive.derivations.model import Derivation, Output, Platform, TreeOutput
from derive.errors import Corrupt, DeriveError, Missing
from derive.images.oci import named_blobs
from derive.net.archives import by_hash
from derive.net.places import ArchivePlace, ArchiveSite
from derive.trees.listing import File, Listing

if TYPE_CHECKING:
    from derive.capsule.model import CapsuleDocument
    from derive.capsule.probe import Prober
    from derive.capsule.tar_index import Slice
    from derive.net.fetch import Fetcher
    from derive.releases.content import Source
    from derive.releases.find import Known
    from derive.store.local import LocalStore


@dataclass(slots=True)
class Looking:
    """Places to look in, and what was found so far. ``say`` tells a person what could not be looked at."""

    say: Callable[[str], None]
    jobs: int
    deep: bool
    asked: list[PlaceKind] = field(default_factory=list)
    held: dict[tuple[Use, Digest], set[PlaceKind]] = field(default_factory=dict)
    sizes: dict[Digest, int] = field(default_factory=dict)

    def found(self, kind: PlaceKind, things: Iterable[tuple[Use, Digest]]) -> None:
        """Note that a place has some things."""
        if kind not in self.asked:
            self.asked.append(kind)
        for thing in things:
            self.held.setdefault(thing, set()).add(kind)

    def answer(self, wanted: Iterable[tuple[Use, Digest]]) -> Derivability:
        """Return where each thing is."""
        located = tuple(
            Located(
                use=use,
                digest=digest,
                size=self.sizes.get(digest, 0),
                places=frozenset(self.held.get((use, digest), ())),
            )
            for use, digest in sorted(set(wanted))
        )
        order: tuple[PlaceKind, ...] = ("store", "project", "archive", "capsule", "mirror")
        return Derivability(located=located, asked=tuple(place for place in order if place in self.asked))


def things_of(known: Known, platforms: Sequence[Platform], *, engine: bool) -> tuple[list[Input], dict[Use, Digest]]:
    """Return the artifacts and the documents that a release derives from."""
    from derive.releases.content import wanted_of

    documents = {Use(kind=CONTENT, name=path): digest for path, digest in wanted_of(known).items()}
    body = known.entry.record.body["documents"]
    assert isinstance(body, Mapping)
    for kind, name in ((RELEASE, RELEASE_FILE), (FACTS, FACTS_FILE)):
        documents[Use(kind=kind, name=name)] = Digest.parse(str(body[name]))
    documents[Use(kind=RECORD, name=known.entry.file)] = sha256(known.entry.record.encoded() + b"\n")
    facts = known.facts
    engines = sorted(facts.engine) if engine else ()
    return list(inputs_of(facts, platforms or sorted(known.release.images), engines)), documents


def look_in_store(looking: Looking, store: LocalStore, inputs: Sequence[Input]) -> None:
    """Look in a store; deep, every byte is read and hashed."""
    gone = set() if store.is_absent else {(one.use, one.digest) for one in absent(store, inputs)}
    there = [] if store.is_absent else [one for one in inputs if (one.use, one.digest) not in gone]
    for one in () if store.is_absent else inputs:  # whatever else of it is not there: its size is known
        if isinstance(one.output, TreeOutput) and store.has_tree(one.digest):
            looking.sizes[one.digest] = nar_size(store.listing(one.digest))
        elif not isinstance(one.output, TreeOutput) and store.has_blob(one.digest):
            looking.sizes[one.digest] = store.blob_size(one.digest)
    if looking.deep:
        there = [one for one in there if _is_sound(store, one, looking.say)]
    looking.found("store", ((one.use, one.digest) for one in there))


def look_in_project(
    looking: Looking, known: Known, sources: Iterable[Source], documents: Mapping[Use, Digest], kind: PlaceKind
) -> None:
    """Look for content files in a project or a store."""
    from derive.releases.content import look

    files = look(known, sources).files
    for use, digest in documents.items():
        if use.kind == CONTENT and use.name in files:
            looking.sizes[digest] = len(files[use.name])
            looking.found(kind, [(use, digest)])


def look_in_layouts(
    looking: Looking,
    kind: PlaceKind,
    places: Iterable[str],
    inputs: Sequence[Input],
    documents: Mapping[Use, Digest],
) -> None:
    """Look in capsules, or archives of this machine; what cannot be read is said, and has nothing."""
    looking.found(kind, ())
    for path in places:
        try:
            with open_capsule(path) as capsule:
                wanted = {one.digest for one in inputs}.union(documents.values())
                bad = _altered(capsule, wanted, looking) if looking.deep else frozenset()
                for digest in sorted(bad):
                    looking.say(f"{path}: blob {digest} is not what its name says, and does not count")
                found = [(one.use, one.digest) for one in inputs if _has(capsule, one, bad)]
                found += [(use, digest) for use, digest in documents.items() if _is_there(capsule, digest, bad)]
                for _, digest in found:
                    looking.sizes.setdefault(digest, capsule.size(digest))
                looking.found(kind, found)
        except DeriveError as error:
            looking.say(f"{error.problems()[0].where or path}: {error.message}: nothing in it counts")


def look_at_engine(looking: Looking, inputs: Iterable[Input]) -> None:
    """Count the source of the engine that runs, which needs no fetching."""
    from derive.engine.fetch import is_own
    from derive.engine.source import engine_files

    own = [one for one in inputs if one.use.kind == "fetch-engine" and is_own(one.digest)]
    if own:
        files = {path.encode(): File(False, len(data), sha256(data)) for path, data in engine_files().items()}
        looking.sizes |= dict.fromkeys((one.digest for one in own), nar_size(Listing.of(files)))
    looking.found("project", ((one.use, one.digest) for one in own))


def look_at_sites(
    looking: Looking, sites: Iterable[ArchiveSite], prober: Prober, fetcher: Fetcher, inputs: Sequence[Input]
) -> None:
    """Ask archives that are sites, artifact by artifact."""
    for site in sites:
        looking.found("archive", ())
        wanted: dict[Input, list[str]] = {}
        for one in inputs:
            proof = fetcher.archived_proof(one.digest) if one.is_commit else None
            if proof is not None or not one.is_commit:
                every = [one.digest] if proof is None else [one.digest, proof]
                wanted[one] = [by_hash(site.url, digest) for digest in every]
        there = prober.having(url for urls in wanted.values() for url in urls)
        looking.found("archive", ((one.use, one.digest) for one, urls in wanted.items() if there.issuperset(urls)))


def note_sizes(looking: Looking, fetches: Mapping[Output, Derivation]) -> None:
    """Note the sizes that a lock states, whoever has what they are of."""
    for output, fetch in fetches.items():
        size = fetch.arguments.get("size")
        if isinstance(size, int) and not isinstance(output, TreeOutput):  # of a tree, its NAR's size counts
            looking.sizes[output.digest] = size


def note_documents(looking: Looking, known: Known, documents: Mapping[Use, Digest]) -> None:
    """Note the sizes of a release's documents and its record, which are at hand."""
    data = {RELEASE: known.release_data, FACTS: known.facts_data, RECORD: known.entry.record.encoded() + b"\n"}
    looking.sizes |= {digest: len(data[use.kind]) for use, digest in documents.items() if use.kind in data}


def look_at_mirrors(
    looking: Looking, prober: Prober, inputs: Iterable[Input], fetches: Mapping[Output, Derivation]
) -> None:
    """Ask mirrors, each artifact of which somebody may be asked."""
    looking.found("mirror", ())
    asked = {one: fetches[one.output] for one in inputs if one.output in fetches}
    served = prober.served(asked.values())
    looking.found("mirror", ((one.use, one.digest) for one, fetch in asked.items() if fetch.id in served))


def local_places(places: Iterable[ArchivePlace], store: Path) -> list[str]:
    """Return the archives of this machine that are there, but for the store itself."""
    found = []
    for place in places:
        if isinstance(place, ArchiveSite):
            continue
        path = Path(place.path)
        try:
            if not path.exists() or (store.exists() and path.samefile(store)):
                continue
        except OSError:
            continue
        found.append(place.path)
    return found


def _is_sound(store: LocalStore, one: Input, say: Callable[[str], None]) -> bool:
    try:
        if isinstance(one.output, TreeOutput):
            for _, file in store.listing(one.digest).files():
                for _ in store.read(file):
                    pass
        else:
            _require(store.read_blob(one.digest), one.digest, store.blob_size(one.digest))
    except (Corrupt, Missing) as error:
        say(f"the store: {one.use}: {error.message}: it does not count")
        return False
    return True


def _require(pieces: Iterator[bytes], digest: Digest, size: int) -> None:
    from derive.capsule.tar_write import checked

    for _ in checked(digest, pieces, size):
        pass


def _altered(capsule: Capsule, wanted: Iterable[Digest], looking: Looking) -> frozenset[Digest]:
    """Return what is wanted of a layout, or is part of a capsule in it, and is not what its name says.

    What has another size than somebody states is not hashed, which could take for ever.
    """
    stated = {part.digest: part.size for one in _documents(capsule) for part in one.parts}
    sizes = {**looking.sizes, **stated}
    there: list[tuple[Digest, str, Slice]] = []
    bad: set[Digest] = set()
    for digest in sorted(stated.keys() | set(wanted)):
        found = capsule.layout.slice(digest)
        if found is not None and sizes.get(digest, found[1].size) != found[1].size:
            bad.add(digest)
        elif found is not None:
            there.append((digest, *found))
    return frozenset(bad.union(digest for digest, got in digests_of(there, looking.jobs) if got != digest))


def _has(capsule: Capsule, one: Input, bad: frozenset[Digest]) -> bool:
    """Say whether a layout has an input whole: with the proof of a commit, with the blobs of an image."""
    if not _is_there(capsule, one.digest, bad):
        return False
    if one.is_image:
        return all(_is_there(capsule, blob.digest, bad) for blob in named_blobs(capsule.small(one.digest)))
    if one.is_commit:
        proof = proofs_of(_documents(capsule)).get(one.digest)
        return proof is not None and _is_there(capsule, proof, bad)
    return True


def _documents(capsule: Capsule) -> tuple[CapsuleDocument, ...]:
    try:
        return capsule.releases
    except DeriveError:  # an archive that is no capsule
        return ()


def _is_there(capsule: Capsule, digest: Digest, bad: frozenset[Digest]) -> bool:
    return digest not in bad and capsule.has(digest)
