# SPDX-License-Identifier: Apache-2.0
"""Git upstreams into the store: a wish to a pin, and a pin to a tree with its proof.

Edge: git, the network, the store.

One commit is fetched, without history, into a scratch repository. Its trees and files are read as objects, each checked
by its id, so that no attribute, filter, line ending or setting changes a byte; the scratch repository is then dropped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from derive.errors import Corrupt, Unavailable, expected_got
from derive.git.failures import GitFailure, Subject
from derive.git.gather import Gathering, Submodules
from derive.git.model import FetchedGit, GitPin, GitRequest, GitWanted, SubmodulePin
from derive.git.places import Place, is_folder, places
from derive.git.program import Session
from derive.git.scratch import Scratch, Sought, first_that_gives
from derive.net.progress import Progress, Quiet
from derive.store.local import LocalStore
from derive.store.protocol import Store
from derive.trees.materialise import remove_folder


def resolve_git(
    store: Store,
    request: GitRequest,
    *,
    progress: Progress | None = None,
    offline: bool = False,
    session: Session | None = None,
) -> GitPin:
    """Return what a request means now; as :func:`resolve_and_keep`."""
    return resolve_and_keep(store, request, progress=progress, offline=offline, session=session)[0]


def resolve_and_keep(
    store: Store,
    request: GitRequest,
    *,
    progress: Progress | None = None,
    offline: bool = False,
    session: Session | None = None,
) -> tuple[GitPin, FetchedGit]:
    """Find what a request means now, fetch it, keep tree and proof in the store, and return the pin and where they are.

    Raises:
        UpstreamGone: every server answers, and none has it.
        Unavailable: no server could be asked, or ``offline``.
        InputErrors: it holds what no tree of ours can hold, or a submodule without a URL.
    """
    if offline:
        raise Unavailable(
            f"{request.name}: a git upstream cannot be resolved offline", hint="run it once without --offline"
        )
    session = session or Session(progress=progress or Quiet())
    asked = places(request.urls, request.mirrors, request.name)
    mode = Submodules(wanted=request.submodules, urls=request.submodule_urls, mirrors=request.mirrors)
    with _workplace(store) as folder:
        scratch = Scratch(session, folder / "top", request.name)
        subject = Subject(name=request.name, what=_what(request))
        place, found = first_that_gives(asked, subject, lambda place: _find(scratch, request, place))
        gathering = Gathering(session, folder, request.name, mode, notes=[*found.notes])
        gathering.take(scratch, _around(request.urls, place), found.commit)
        kept = gathering.keep(store, found.tags)
    _tell(session, request.name, gathering.notes)
    pin = GitPin(
        name=request.name,
        commit=found.commit,
        tree=gathering.parts[0].tree,
        nar=kept.tree,
        tag=request.tag,
        branch=found.branch,
        tag_object=found.tag_object,
        submodules=gathering.pins(),
        size=kept.size,
        lfs=kept.pointers,
    )
    fetched = FetchedGit(tree=kept.tree, proof=kept.proof, url=place.shown, notes=tuple(gathering.notes))
    return pin, fetched


def fetch_git(
    store: Store,
    wanted: GitWanted,
    urls: Sequence[str],
    *,
    mirrors: Sequence[str] = (),
    submodule_urls: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    session: Session | None = None,
) -> FetchedGit:
    """Fetch exactly what is pinned, from the first place that gives it.

    Raises:
        UpstreamGone: every server answers, and none has the commit.
        Unavailable: no server could be asked.
        Corrupt: the commit is there, and its tree, a submodule or the contents are not those pinned.
    """
    session = session or Session(progress=progress or Quiet())
    sought = Sought(commit=wanted.commit, tag=wanted.tag, branch=wanted.branch, tag_object=wanted.tag_object)
    subject = Subject(name=wanted.name, what=f"commit {wanted.commit}")
    paths = frozenset(pin.path for pin in wanted.submodules)
    mode = Submodules(wanted=paths, urls=submodule_urls or {}, mirrors=mirrors)
    with _workplace(store) as folder:
        scratch = Scratch(session, folder / "top", wanted.name)
        asked = places(urls, mirrors, wanted.name)
        place, note = first_that_gives(asked, subject, lambda place: scratch.bring(place, sought))
        gathering = Gathering(session, folder, wanted.name, mode, notes=[note] if note else [])
        tags = _tags(scratch, place, wanted, gathering.notes)
        gathering.take(scratch, _around(urls, place), wanted.commit)
        _check_ids(wanted, gathering)
        kept = gathering.keep(store, tags)
    _same(f"{wanted.name}: the contents are not those that the lock names", wanted.nar, kept.tree)
    _tell(session, wanted.name, gathering.notes)
    return FetchedGit(tree=kept.tree, proof=kept.proof, url=place.shown, notes=tuple(gathering.notes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What one place says that a request means."""

    commit: str
    branch: str | None
    tag_object: str | None
    tags: tuple[bytes, ...]
    notes: tuple[str, ...]


def _find(scratch: Scratch, request: GitRequest, place: Place) -> _Found:
    """Ask one place what a request means, and bring it; raises GitFailure."""
    commit, branch, tag_object = request.commit, request.branch, None
    notes: list[str] = []
    if request.tag is not None:
        ref = f"refs/tags/{request.tag}"
        ids = scratch.names(place, ref, f"{ref}^{{}}").ids
        leads_to = ids.get(f"{ref}^{{}}", ids.get(ref))
        commit = commit or leads_to
        if leads_to == commit and leads_to != ids.get(ref):
            tag_object = ids[ref]
        elif leads_to != commit:
            notes.append(f"tag {request.tag} leads to {leads_to or 'nothing'}, not to the commit that is named")
    elif commit is None:
        ref = f"refs/heads/{branch}" if branch is not None else "HEAD"
        names = scratch.names(place, ref)
        commit, branch = names.ids.get(ref), branch if branch is not None else names.head
    if commit is None:
        raise GitFailure("no-ref", f"has no {_what(request)}")
    sought = Sought(commit=commit, tag=request.tag, branch=branch, tag_object=tag_object)
    note = scratch.bring(place, sought)
    notes += [note] if note is not None else []
    tags = scratch.bring_tags(place, tag_object, commit) if tag_object is not None else ()
    return _Found(commit=commit, branch=branch, tag_object=tag_object, tags=tags, notes=tuple(notes))


def _what(request: GitRequest) -> str:
    if request.commit is not None:
        return f"commit {request.commit}"
    if request.tag is not None:
        return f"tag {request.tag}"
    return f"branch {request.branch}" if request.branch is not None else "default branch"


def _tags(scratch: Scratch, place: Place, wanted: GitWanted, notes: list[str]) -> tuple[bytes, ...]:
    """Return the pinned tag's objects, or none where the upstream has taken it away: the commit is what counts."""
    if wanted.tag_object is None:
        return ()
    try:
        return scratch.bring_tags(place, wanted.tag_object, wanted.commit)
    except GitFailure:
        notes.append(f"tag {wanted.tag} is no longer what it was; its commit is still served")
        return ()


def _around(urls: Sequence[str], place: Place) -> tuple[Place, ...]:
    """Return where a repository is served: its own places, then the one that was used."""
    own = (Place(url, local=is_folder(url)) for url in urls)
    return tuple(dict.fromkeys((*own, place)))


def _check_ids(wanted: GitWanted, gathering: Gathering) -> None:
    """Compare what was fetched with every id that the lock names, before anything is kept of it."""
    _same(f"{wanted.name}: the commit's tree is not the one that the lock names", wanted.tree, gathering.parts[0].tree)
    expected, got = wanted.submodules, gathering.pins()
    if expected != got:
        raise Corrupt(
            f"{wanted.name}: the commit's submodules are not those that the lock names",
            detail=[
                *(f"expected  {_pin(pin)}" for pin in expected if pin not in got),
                *(f"got       {_pin(pin)}" for pin in got if pin not in expected),
            ],
            hint=f"run: derive lock --update {wanted.name}",
        )


def _pin(pin: SubmodulePin) -> str:
    return f"{pin.path} commit {pin.commit} tree {pin.tree}"


def _same(what: str, expected: object, got: object) -> None:
    if expected != got:
        raise Corrupt(
            what,
            detail=expected_got(expected, got),
            hint="the lock was edited, or something between alters what is fetched: compare with another mirror",
        )


def _tell(session: Session, name: str, notes: Sequence[str]) -> None:
    for note in notes:
        session.progress.note(f"{name}: {note}")


@contextmanager
def _workplace(store: Store) -> Iterator[Path]:
    """Lend a folder for scratch repositories, in the store's file system where it has one."""
    if not isinstance(store, LocalStore):
        with tempfile.TemporaryDirectory(prefix="derive-git-") as scratch:
            yield Path(scratch)
        return
    folder = store.staging.new_path()
    folder.mkdir()
    try:
        yield folder
    finally:
        remove_folder(folder)
