# SPDX-License-Identifier: Apache-2.0
"""What the commands call: from a release to its capsule, and to where everything of it is today.

Edge: puts the project, the store, the network and capsules together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from derive.capsule import locate
from derive.capsule.fetches import bring, engine_fetches, image_fetches
from derive.capsule.gather import absent, gather
from derive.capsule.inputs import Contents, Input
from derive.capsule.known import contents_of
from derive.capsule.model import ROOT, CapsuleDocument, Use
from derive.capsule.whole import Whole, whole_of
from derive.capsule.write import Room, check_target, write_capsule
from derive.derivations.model import Derivation, Output, Platform
from derive.engine.past import keep_from_git
from derive.errors import DeriveError, InputErrors, Unavailable, expected_got
from derive.net.places import ArchiveSite
from derive.records.folder import files_below, load
from derive.releases.content import files_of, usual_sources
from derive.store.local import LocalStore

if TYPE_CHECKING:
    from derive.build.execute import Progress
    from derive.build.service import Options
    from derive.capsule.located import Derivability
    from derive.net.places import MirrorSource
    from derive.releases.content import Source
    from derive.releases.find import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """A written capsule: its document, and everything that lies in the layout now."""

    document: CapsuleDocument
    whole: Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A release of a project, and the store's folder beside it."""

    root: Path
    known: Known
    store: Path


def create(
    at: Where,
    store: LocalStore,
    target: Path,
    options: Options,
    *,
    platforms: Sequence[Platform],
    engine: bool,
    add: bool,
    say: Callable[[Room], None],
    built_engine: bool = False,
    progress: Progress | None = None,
) -> Created:
    """Pack a release, after what the store lacks was brought from mirrors and archives.

    ``built_engine`` adds the root in which the engine runs on the build platform, so that nobody need build it.

    Raises:
        InputErrors, HostRefuses, Corrupt: as :func:`derive.capsule.write.write_capsule`.
        Missing: when some of the release's content is nowhere.
        UpstreamGone, Unavailable: when nobody serves some of its artifacts any more; all are named.
    """
    check_target(target, add=add)
    store.protect(())  # what is found from here on stays, whatever a collection removes meanwhile
    keep_from_git(store, at.root, at.known.commit, at.known.release.engine.source)
    files = files_of(at.known, usual_sources(at.known, at.root, at.store))
    contents = contents_of(at.known, load(at.root), files_below(at.root), files, platforms, engine=engine)
    lacking = absent(store, contents.inputs)
    if lacking:
        images = image_fetches(at.known.release, files, contents.platforms)
        every = {**_engine_fetches(at.known, store), **images}
        bring(store, lacking, every, options, progress, every.keys() - images.keys(), at.known.name)
    if built_engine:
        contents = replace(contents, inputs=(*contents.inputs, _root(at.known, store, options, progress)))
    return _packed(store, contents, target, options.jobs, add=add, say=say)


def fetches(
    known: Known, store: LocalStore, files: Mapping[str, bytes], platforms: Sequence[Platform]
) -> dict[Output, Derivation]:
    """Return the steps that fetch what a release takes, its engine's if its source is at hand; raises InputErrors."""
    return {**_engine_fetches(known, store), **image_fetches(known.release, files, platforms)}


def _engine_fetches(known: Known, store: LocalStore) -> dict[Output, Derivation]:
    source = engine_source(known, store)
    return {} if source is None else engine_fetches(source, tuple(known.facts.engine))


def engine_source(known: Known, store: LocalStore) -> Mapping[str, bytes] | None:
    """Return the files of the engine that made a release: the running one's, or the store's; None when neither."""
    from derive.engine.fetch import is_own
    from derive.engine.source import engine_files
    from derive.store.protocol import read_all

    nar = known.release.engine.source
    if is_own(nar):
        return engine_files()
    if store.is_absent or not store.has_tree(nar):
        return None
    return {path.decode("utf-8", "replace"): read_all(store, file) for path, file in store.listing(nar).files()}


def derivability(
    at: Where,
    *,
    capsules: Sequence[str],
    platforms: Sequence[Platform],
    engine: bool,
    offline: bool,
    deep: bool,
    jobs: int,
    say: Callable[[str], None],
) -> Derivability:
    """Look for everything of a release wherever it may be today; ``say`` tells what could not be looked at.

    Raises:
        InputErrors: when archives are wrongly configured.
    """
    from derive.lock.mirrors import SystemMirrors
    from derive.releases.content import Stored, WorkingTree
    from derive.releases.past import GitHistory

    looking = locate.Looking(say=say, jobs=jobs, deep=deep)
    inputs, documents = locate.things_of(at.known, platforms, engine=engine)
    locate.note_documents(looking, at.known, documents)
    looking.found("project", ((use, digest) for use, digest in documents.items() if use.kind != "content"))
    here: list[Source] = [WorkingTree(at.root), GitHistory(at.root, at.known.commit)]
    locate.look_in_project(looking, at.known, here, documents, "project")
    locate.look_at_engine(looking, inputs)
    mirrors = SystemMirrors()
    places = mirrors.archives()
    archives = locate.local_places(places, at.store)
    with LocalStore(at.store, reading=True) as store:
        locate.look_in_project(looking, at.known, [Stored(at.store, at.known.name)], documents, "store")
        locate.look_in_store(looking, store, inputs)
        locate.look_in_layouts(looking, "archive", archives, inputs, documents)
        locate.look_in_layouts(looking, "capsule", capsules, inputs, documents)
        asked = _fetches_now(looking, at, store, capsules, platforms)
        if not offline:
            _ask_mirrors(looking, store, inputs, asked, mirrors)
    things = [*((one.use, one.digest) for one in inputs), *documents.items()]
    return looking.answer(things)


def _fetches_now(
    looking: locate.Looking, at: Where, store: LocalStore, capsules: Sequence[str], platforms: Sequence[Platform]
) -> Mapping[Output, Derivation]:
    """Return whom to ask for what; nobody where content is nowhere, or this engine cannot evaluate it."""
    try:
        files = files_of(at.known, usual_sources(at.known, at.root, at.store, capsules))
        found = fetches(at.known, store, files, platforms or sorted(at.known.release.images))
    except DeriveError as error:
        why = "; ".join(one.message for one in error.problems()[:3])
        looking.say(f"nobody knows who serves what the release was fetched from: {why}")
        return {}
    locate.note_sizes(looking, found)
    return found


def _ask_mirrors(
    looking: locate.Looking,
    store: LocalStore,
    inputs: Sequence[Input],
    asked: Mapping[Output, Derivation],
    mirrors: MirrorSource,
) -> None:
    """Ask archives that are sites, and mirrors."""
    from derive.build.fetching import StoreFetch
    from derive.capsule.probe import Prober
    from derive.net.http import Settings
    from derive.net.progress import NotesOnly

    patience = Settings(connect_s=10, read_s=30, attempts=2)
    sites = tuple(place for place in mirrors.archives() if isinstance(place, ArchiveSite))
    with StoreFetch(NotesOnly(looking.say), mirrors=mirrors, settings=patience) as fetch:
        fetcher = fetch.fetcher(store)
        prober = Prober(fetcher, fetch.upstreams(store), mirrors)
        locate.look_at_sites(looking, sites, prober, fetcher, inputs)
        locate.look_at_mirrors(looking, prober, inputs, asked)


def _root(known: Known, store: LocalStore, options: Options, progress: Progress | None) -> Input:
    """Return the engine's root for the build platform, which is built where it is not there."""
    from derive.build.service import plan_for, realise
    from derive.engine.derivation import engine_derivations

    platform = known.release.build_platform
    source = engine_source(known, store)
    if source is None:
        raise Unavailable(
            f"the engine that made {known.name} is not at hand",
            detail=[f"wanted    nar:{known.release.engine.source}"],
            hint="leave its root out, or run this with that engine",
        )
    target = engine_derivations(source, (platform,))[platform]
    if target.id != known.release.engine.derivations[platform]:
        detail = expected_got(known.release.engine.derivations[platform], target.id)
        hint = "leave its root out, or run this with that engine"
        raise InputErrors.one("the engine at hand builds another root than the release names", detail=detail, hint=hint)
    output = realise(plan_for(target, store, options.root), store, options, progress)["out"]
    return Input(use=Use(kind=ROOT, name=platform), output=output)


def _packed(
    store: LocalStore, contents: Contents, target: Path, jobs: int, *, add: bool, say: Callable[[Room], None]
) -> Created:
    gathered = gather(store, contents)
    whole = whole_of(gathered.document, gathered.read)
    return Created(document=gathered.document, whole=write_capsule(whole, target, add=add, jobs=jobs, say=say))
