# SPDX-License-Identifier: Apache-2.0
"""What a builder is given to work with, and what it gives back.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol

from derive.derivations.model import Output, ResolvedDerivation, TreeOutput

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from derive.build.compile_server import CompileServers
    from derive.canonical import Digest
    from derive.sandbox.outcome import Runner
    from derive.store.local import LocalStore
    from derive.trees.listing import Listing


class Fetch(Protocol):
    """Brings one locked artifact into the store, checked."""

    def __call__(self, request: ResolvedDerivation, store: LocalStore) -> Digest:
        """Fetch what a ``fetch-*`` derivation names; raises Unavailable, UpstreamGone or Corrupt."""

    def upstream(self, request: ResolvedDerivation, store: LocalStore, places: Sequence[str]) -> Mapping[str, Output]:
        """Fetch from an upstream's own place, which ``places`` names; raises likewise."""

    def stop(self) -> None:
        """Make every transfer end at its next piece; it raises Interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One build's surroundings; none of it may decide a byte.

    ``name`` is what errors call the step; ``labels`` are names for people that no identity holds, such as those of the
    patches in a series; ``sandbox`` finds this machine's way to run sandboxes; ``jobs`` is how many things the builder
    may do at once; ``scratch`` a fresh path in the store's staging area, where nothing is yet; ``cancel`` is set when
    the build must stop. ``places`` are URLs that a wish gives; ``keep`` is where the folders of a script that
    fails are left for a person, None where they are not. ``compilers`` are those that the steps of a run share, None
    where each step has its own. ``from_nothing`` asks a builder to use nothing that another
    build of its own kind left: a check does.
    """

    name: str
    labels: tuple[str, ...]
    store: LocalStore
    fetch: Fetch
    sandbox: Callable[[], Runner]
    log: Callable[[str], None]
    log_bytes: Callable[[bytes], None]
    jobs: int
    scratch: PurePath
    cancel: threading.Event
    timeout_s: float | None
    places: tuple[str, ...] = ()
    keep: Path | None = None
    compilers: CompileServers | None = None
    from_nothing: bool = False

    def tree(self, request: ResolvedDerivation, listing: Listing) -> TreeOutput:
        """Keep a tree and return it as an output, named by its facts where the derivation says so."""
        if request.arguments.get("identity") == "facts":
            return TreeOutput(self.store.add_listing(listing, by_facts=True), "facts")
        return TreeOutput(self.store.add_listing(listing))


Build = Callable[[ResolvedDerivation, Context], Mapping[str, Output]]
"""A builder: a pure function of the resolved derivation, as far as its output's bytes go."""
