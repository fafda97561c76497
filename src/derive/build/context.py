# SPDX-License-Identifier: Apache-2.0
"""What a builder is given to work with, and what it gives back.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol, TypeAlias

from derive.canonical import Digest
from derive.derivations.model import Output, Platform, ResolvedDerivation, TreeOutput
from derive.trees.listing import Listing

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from derive.build.compile_server import CompileServers
    from derive.sandbox.outcome import Outcome, Runner
    from derive.sandbox.outputs import Finished
    from derive.sandbox.request import Command
    from derive.store.local import LocalStore


class Fetch(Protocol):
    """Brings one locked artifact into the store, checked."""

    def __call__(self, request: ResolvedDerivation, store: LocalStore) -> Digest:
        """Fetch what a ``fetch-*`` derivation names; raises Unavailable, UpstreamGone or Corrupt."""

    def upstream(self, request: ResolvedDerivation, store: LocalStore, places: Sequence[str]) -> Mapping[str, Output]:
        """Fetch from an upstream's own place, which ``places`` names; raises likewise."""

    def stop(self) -> None:
        """Make every transfer end at its next piece; it raises Interrupted."""


Source: TypeAlias = Digest | Listing
"""What a step finds below ``/in``: a tree of the store, or a listing whose contents are in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A command over a root, as whoever runs it elsewhere is given it: by digests, and nothing laid out on disk.

    ``name`` is what errors and logs call the step; ``platform`` is the one that the root's programs are for; ``jobs``
    is how many things the command may do at once. ``environment`` is the derivation's own: what every sandbox has
    beside it is not in it.
    """

    name: str
    root: Digest
    platform: Platform
    command: Command
    sources: Mapping[str, Source]
    environment: Mapping[str, str]
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a task ended. ``output`` is there where it ended well; ``worker`` is what nobody could decide beforehand.

    Keys of ``worker``: ``executor``, ``builder``, ``node``, ``driver``, ``version``, ``kernel``, where known;
    ``sent_bytes``, what had to be sent to it, and ``queued_ns``, how long it took to begin, as decimal text.
    """

    outcome: Outcome
    output: Finished | None = None
    worker: Mapping[str, str] = field(default_factory=dict)


class StepExecutor(Protocol):
    """Runs tasks somewhere else than in this machine's own sandbox."""

    def run(self, task: Task, context: Context) -> AbstractContextManager[Ran]:
        """Run a task to its end; what it gave can be read for as long as the context is open.

        Its log goes to ``context.log_bytes``; it heeds ``context.timeout_s`` and ``context.cancel``.

        Raises:
            Unavailable: when nothing could run it to an end, however often it was tried.
            HostRefuses: when nothing there can run such a task.
            BuildFailed: when the root does not hold the program.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One build's surroundings; none of it may decide a byte.

    ``name`` is what errors call the step; ``labels`` are names for people that no identity holds, such as those of the
    patches in a series; ``sandbox`` finds this machine's way to run sandboxes; ``jobs`` is how many things the builder
    may do at once; ``scratch`` a fresh path in the store's staging area, where nothing is yet; ``cancel`` is set when
    the build must stop. ``places`` are URLs that a wish gives; ``keep`` is where the folders of a script that
    fails are left for a person, None where they are not. ``compilers`` are those that the steps of a run share, None
    where each step has its own. ``from_nothing`` asks a builder to use nothing that another
    build of its own kind left: a check does. ``executor`` runs scripts and compilers, None where this machine's sandbox
    does; ``ran_by`` is told of the worker of a step that it ran.
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
    executor: StepExecutor | None = None
    ran_by: Callable[[Mapping[str, str]], None] = field(default=lambda _: None)

    def tree(self, request: ResolvedDerivation, listing: Listing) -> TreeOutput:
        """Keep a tree and return it as an output, named by its facts where the derivation says so."""
        if request.arguments.get("identity") == "facts":
            return TreeOutput(self.store.add_listing(listing, by_facts=True), "facts")
        return TreeOutput(self.store.add_listing(listing))


Build = Callable[[ResolvedDerivation, Context], Mapping[str, Output]]
"""A builder: a pure function of the resolved derivation, as far as its output's bytes go."""
