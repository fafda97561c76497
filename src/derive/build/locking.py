# SPDX-License-Identifier: Apache-2.0
"""Locks sets and writes them; what was fetched on the way counts as fetched.

Edge: the network, the store, the project's folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from derive.build.engine import engine_digest
from derive.build.fetching import recorder, wanted
from derive.build.plan import resolved_of
from derive.derivations import steps
from derive.derivations.model import Derivation, FlatOutput, Output, ResolvedDerivation, TreeOutput
from derive.derivations.upstreams import fetch_git, fetch_url
from derive.lock.documents import DebEntry, LockEntry, PythonLock, SourceEntry, WheelEntry
from derive.lock.keep import Keep, MoveNames
from derive.lock.mirrors import SystemMirrors
from derive.lock.requirements import render_requirements
from derive.lock.tools import Tools
from derive.lock.update import Locked, SetFiles, lock_set, write_lock
from derive.lock.upstreams.entries import GitEntry, HuggingFaceEntry, OciEntry, UrlEntry, WatchEntry
from derive.lock.upstreams.wishes import UpstreamsWish
from derive.lock.wishes import require_wish
from derive.net.fetch import Fetcher
from derive.net.progress import NotesOnly
from derive.store.database import Realisation
from derive.store.local import LocalStore

ENGINE_SET = "engine"
REQUIREMENTS = "requirements.txt"


@contextmanager
def lock_tools(store: LocalStore, note: Callable[[str], None]) -> Iterator[Tools]:
    """Give the resolvers what they need; ``note`` is told what is worth a line."""
    mirrors, progress = SystemMirrors(), NotesOnly(note)
    with Fetcher(store=store, mirrors=mirrors, progress=progress, record=recorder(store)) as fetcher:
        yield Tools(store=store, fetcher=fetcher, mirrors=mirrors, progress=progress)


def lock_sets(
    root: Path, files: Sequence[SetFiles], keep: Keep, tools: Tools, store: LocalStore
) -> list[tuple[str, Locked]]:
    """Resolve sets and write what moved; a name to update may be in some of them only.

    Raises:
        InputErrors: a wish is wrong, or a name to update is in none of the sets.
        DeriveError: what the resolvers raise.
    """
    found: list[tuple[str, Locked]] = []
    for one in _holding(files, keep):
        locked = lock_set(one, keep, tools)
        write_lock(root, one, locked.data)
        found.append((one.name, locked))
        _write_requirements(root, one.name, locked)
        _note_fetched(store, tools, one, locked.lock.entries)
    return found


def _holding(files: Sequence[SetFiles], keep: Keep) -> Sequence[SetFiles]:
    """Leave out the sets that hold none of the names to move; with one set alone, let its own error tell."""
    if not isinstance(keep, MoveNames) or len(files) == 1:
        return files
    holding = [one for one in files if any(f'"{name}"'.encode() in (one.locked or b"") for name in keep.names)]
    return holding or files


def _write_requirements(root: Path, name: str, locked: Locked) -> None:
    if name == ENGINE_SET and isinstance(locked.lock, PythonLock):
        text = render_requirements(locked.lock)
        target = root / REQUIREMENTS
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def _note_fetched(store: LocalStore, tools: Tools, one: SetFiles, entries: Sequence[LockEntry]) -> None:
    """What locking itself fetched from where the lock says, no build needs to fetch again."""
    engine = engine_digest().hex
    for derivation in _fetches(one, entries):
        request = resolved_of(derivation, {})
        outputs = _served(tools, derivation, request)
        if outputs is None:
            continue
        row = Realisation(
            resolved=request.id,
            outputs={name: str(output) for name, output in outputs.items()},
            builder=f"{derivation.builder}/{derivation.version}",
            engine=engine,
            host="any",
            duration_ns=0,
            log="",
            built_s=int(time.time()),
        )
        store.database.add_realisation(row, derivation.id, derivation.name, derivation.encoded())


def _served(tools: Tools, derivation: Derivation, request: ResolvedDerivation) -> Mapping[str, Output] | None:
    """Return a fetch's outputs when locking made it just now."""
    match derivation.fixed:
        case TreeOutput(digest) if digest in tools.git:
            return {"out": TreeOutput(digest), "proof": FlatOutput(tools.git[digest].proof)}
        case FlatOutput() as output if tools.fetcher.has_served(wanted(request, derivation.places)):
            return {"out": output}
        case _:
            return None


def _fetches(one: SetFiles, entries: Sequence[LockEntry]) -> Iterator[Derivation]:
    """Yield what a build would fetch of a lock's entries, as far as locking may have fetched it."""
    wish: UpstreamsWish | None = None
    for entry in entries:
        match entry:
            case DebEntry():
                yield steps.fetch_deb(entry)
            case SourceEntry():
                yield from (steps.fetch_source(entry, file) for file in entry.files)
            case WheelEntry():
                yield steps.fetch_wheel(entry)
            case GitEntry() | UrlEntry():
                # Their fetches name places that stand in the wish.
                wish = wish or _upstreams(one)
                if entry.unpinned is None:
                    yield fetch_git(entry, wish) if isinstance(entry, GitEntry) else fetch_url(entry, wish)
            case OciEntry() | HuggingFaceEntry() | WatchEntry():
                pass  # locking reads what they list, and leaves the bulk to whoever needs it


def _upstreams(one: SetFiles) -> UpstreamsWish:
    wish = require_wish(one.wish, one.wish_file)
    assert isinstance(wish, UpstreamsWish)
    return wish
