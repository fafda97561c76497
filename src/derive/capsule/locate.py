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
from derive.capsule.read import Capsule, open_capsule
from derive.derivations.model import Derivation, Output, Platform, TreeOutput
from derive.errors import Corrupt, DeriveError, Missing
from derive.images.oci import named_blobs
from derive.net.archives import by_hash
from derive.net.places import ArchivePlace, ArchiveSite

if TYPE_CHECKING:
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
    for one in there:
        is_tree = isinstance(one.output, TreeOutput)
        looking.sizes[one.digest] = nar_size(store.listing(one.digest)) if is_tree else store.blob_size(one.digest)
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
                bad = _altered(capsule, looking.jobs) if looking.deep else frozenset()
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

    own = [one for one in inputs if one.use.kind == "fetch-engine" and is_own(one.digest)]
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
    """Note the sizes that a lock states, for what is not at hand to be measured."""
    for output, fetch in fetches.items():
        size = fetch.arguments.get("size")
        if isinstance(size, int):
            looking.sizes.setdefault(output.digest, size)


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


def _altered(capsule: Capsule, jobs: int) -> frozenset[Digest]:
    """Return the blobs of a layout that are not what their names say."""

    def every() -> Iterator[tuple[Digest, str, Slice]]:
        for digest in sorted(capsule.layout.blobs()):
            found = capsule.layout.slice(digest)
            if found is not None:
                yield digest, *found

    return frozenset(digest for digest, got in digests_of(every(), jobs) if got != digest)


def _has(capsule: Capsule, one: Input, bad: frozenset[Digest]) -> bool:
    """Say whether a layout has an input whole: with the proof of a commit, with the blobs of an image."""
    if not _is_there(capsule, one.digest, bad):
        return False
    if one.is_image:
        return all(_is_there(capsule, blob.digest, bad) for blob in named_blobs(capsule.small(one.digest)))
    if one.is_commit:
        proof = _proofs(capsule).get(one.digest)
        return proof is not None and _is_there(capsule, proof, bad)
    return True


def _proofs(capsule: Capsule) -> Mapping[Digest, Digest]:
    try:
        return capsule.proofs
    except DeriveError:  # an archive that is no capsule
        return {}


def _is_there(capsule: Capsule, digest: Digest, bad: frozenset[Digest]) -> bool:
    return digest not in bad and capsule.has(digest)
