# SPDX-License-Identifier: Apache-2.0
"""The content files of a release, found by hash: here, in git's history, in the store, in archives and capsules.

Edge: a project's folder, git, a store, folders and files that are named.

Nothing is believed: whatever a place gives is hashed, and what is another file there is looked for elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, DeriveError, Missing
from derive.infile import read_plain
from derive.records.chain import place
from derive.releases.find import Known

_LARGEST = 256 << 20
_SHOWN = 12


class Source(Protocol):
    """A place that may have files of a release."""

    @property
    def name(self) -> str:
        """What messages call it."""

    def find(self, wanted: Mapping[str, Digest]) -> Iterator[tuple[str, bytes]]:
        """Yield what it has of some paths, in any order, whatever the bytes are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Content by its path, and which place each file came from; ``absent`` is what is nowhere."""

    files: Mapping[str, bytes]
    places: Mapping[str, str]
    absent: Mapping[str, Digest]


def wanted_of(known: Known) -> dict[str, Digest]:
    """Return every content file of a release with its digest: recipes by their text, as the record names it."""
    texts = known.entry.record.body["texts"]
    assert isinstance(texts, Mapping)
    recipes = {path: Digest(str(found)) for path, found in texts.items()}
    return dict(sorted({**known.release.lock, **known.release.content, **recipes}.items()))


def files_of(known: Known, sources: Iterable[Source]) -> dict[str, bytes]:
    """Return every content file of a release, by its path in a project.

    Raises:
        Missing: when some are nowhere; it says which.
    """
    sources = list(sources)
    found = look(known, sources)
    if found.absent:
        shown = [f"missing   {path}  {digest}" for path, digest in list(found.absent.items())[:_SHOWN]]
        if len(found.absent) > _SHOWN:
            shown.append(f"and {len(found.absent) - _SHOWN} more")
        looked = ", ".join(source.name for source in sources) or "nowhere"
        raise Missing(
            f"{len(found.absent)} of {len(wanted_of(known))} content files of {known.name} are nowhere",
            where=place(f"{known.name}/release.json"),
            detail=[*shown, f"looked in {looked}"],
            hint=f"have a capsule of it: derive records checkout {known.name} --capsule FILE --output DIR",
        )
    return dict(found.files)


def look(known: Known, sources: Iterable[Source]) -> Found:
    """Look for every content file of a release in some places, in their order; nothing is asked once all is found."""
    wanted = wanted_of(known)
    files: dict[str, bytes] = {}
    places: dict[str, str] = {}
    for source in sources:
        left = {path: digest for path, digest in wanted.items() if path not in files}
        if not left:
            break
        for path, data in source.find(left):
            if path in left and path not in files and sha256(data) == left[path]:
                files[path], places[path] = data, source.name
    absent = {path: digest for path, digest in wanted.items() if path not in files}
    return Found(files=dict(sorted(files.items())), places=places, absent=absent)


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """The files of a project's folder, as they lie there."""

    root: Path
    name: str = "the working tree"

    def find(self, wanted: Mapping[str, Digest]) -> Iterator[tuple[str, bytes]]:
        """Yield the files that can be read."""
        for path in wanted:
            try:
                yield path, read_plain(self.root / path, _LARGEST, follow=False)[0]
            except OSError:
                continue


@dataclass(frozen=True, slots=True)
class Stored:
    """A store: the content that was kept with the release, and blobs by their hash."""

    folder: Path
    release: str
    name: str = "the store"

    def find(self, wanted: Mapping[str, Digest]) -> Iterator[tuple[str, bytes]]:
        """Yield what the store has; one that cannot be read has nothing."""
        from derive.releases.roots import kept_content
        from derive.store.local import LocalStore

        if not self.folder.is_dir():
            return
        try:
            with LocalStore(self.folder, reading=True) as store:
                if store.is_absent:
                    return
                kept = dict(kept_content(store, self.release, wanted))
                yield from kept.items()
                for path, digest in wanted.items():
                    if path not in kept and store.has_blob(digest):
                        yield path, b"".join(store.read_blob(digest))
        except DeriveError:
            return


@dataclass(frozen=True, slots=True)
class Packed:
    """A capsule, or a folder of an archive: blobs by their hash."""

    path: str

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.path

    def find(self, wanted: Mapping[str, Digest]) -> Iterator[tuple[str, bytes]]:
        """Yield what it has; a blob that is not what its name says is as good as absent."""
        from derive.capsule.read import open_capsule

        with open_capsule(self.path) as capsule:
            for path, digest in wanted.items():
                if capsule.has(digest):
                    try:
                        yield path, b"".join(capsule.read(digest))
                    except Corrupt:
                        continue


def usual_sources(known: Known, root: Path, store: Path | None, capsules: Sequence[str] = ()) -> list[Source]:
    """Return where content is looked for: the folder, git's history, the store, archives of this machine, capsules.

    What a person named comes first.
    """
    from derive.releases.past import GitHistory

    sources: list[Source] = [Packed(path) for path in capsules]
    sources += (WorkingTree(root), GitHistory(root, known.commit))
    if store is not None:
        sources.append(Stored(store, known.name))
    sources += (Packed(path) for path in _archives())
    return sources


def _archives() -> Iterator[str]:
    """Yield the archives that are folders or files of this machine; what is configured wrongly is said elsewhere."""
    from derive.lock.mirrors import SystemMirrors
    from derive.net.places import ArchiveSite

    try:
        places = SystemMirrors().archives()
    except DeriveError:
        return
    for one in places:
        path = None if isinstance(one, ArchiveSite) else one.path
        if path is not None and Path(path).exists():
            yield path
