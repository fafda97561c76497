# SPDX-License-Identifier: Apache-2.0
"""What a deploy speaks of: its steps, what is to run, what a node remembers, and what is seen there.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from derive.canonical import Digest, Json

if TYPE_CHECKING:
    from derive.render.bundle import Bundle


class Step(Enum):
    """A step of a deploy, in order. Up to ``STAGE`` whatever serves goes on serving."""

    LEASE = "lease"
    FACTS = "facts"
    PREFLIGHT = "preflight"
    DISTRIBUTE = "distribute"
    STAGE = "stage"
    STOP = "stop"
    ACTIVATE = "activate"
    ARM = "arm"
    START = "start"
    READY = "ready"
    STEADY = "steady"
    OBSERVE = "observe"
    RECORD = "record"

    @property
    def number(self) -> int:
        """Where it stands in the order, from 1."""
        return list(Step).index(self) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a node runs, ran or is to run: a release by name and digest, and the digests that follow from it."""

    release: str
    release_digest: Digest
    recipe: str
    shape: str
    image: Digest
    shape_bundle: Digest
    launch_bundle: Digest

    def document(self) -> dict[str, Json]:
        """Return it as part of a document."""
        return {
            "release": self.release,
            "release-digest": str(self.release_digest),
            "recipe": self.recipe,
            "shape": self.shape,
            "image": str(self.image),
            "shape-bundle": str(self.shape_bundle),
            "launch-bundle": str(self.launch_bundle),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is to run at a site: the release's rendered bundle, whose launches and files are those of all nodes."""

    served: Served
    bundle: Bundle

    @property
    def service(self) -> str:
        """The service's name, which is the container's."""
        return self.bundle.launches[0].name


class Stood(Enum):
    """What a thing that is stopped to make room was."""

    SERVICE = "service"
    """A service of another name that a deploy started: its units or its supervisor are still there."""
    CONTAINER = "container"
    """A container that no deploy started. It is renamed, and its guard may be a unit ``NAME-memguard.service``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """What a deploy stops on a node to make room: a container or another service; ``guard`` is a unit, or None.

    ``restart`` is the container's restart policy as its engine writes it (``always``, ``on-failure:3``), None where
    nobody knows it: while it stands aside it has none.
    """

    kind: str
    name: str
    running: bool
    guard: str | None
    restart: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What a node was in before a deploy that is not over, and so what the next one that fails goes back to.

    ``current`` is what its link led to, ``running`` whether the service was to run, ``aside`` what was stopped beside.
    """

    current: Served | None
    running: bool
    aside: tuple[Aside, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """What a node remembers of a service between deploys: ``{folder}/{service}/state.json``.

    ``step`` is that of the deploy that wrote it, or ``serving`` when it was done, ``stopped`` after a stop, ``failed``
    when neither the new nor the former release came up. ``wanted`` is what that deploy was to bring, ``current`` what
    the links and units on the node stand for, ``healthy`` what was once observed as it should be, newest first.
    ``before`` is there from the step ``stop`` on, until all is well, or all is as it was.
    """

    service: str
    deploy: str
    step: str
    wanted: Served | None
    current: Served | None
    healthy: tuple[Served, ...]
    at_s: int
    before: Before | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """A mount as an engine shows it."""

    type: str
    source: str
    target: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container as its engine shows it, whatever the engine's image store.

    ``image_ids`` are all digests by which the engine knows its image: config, manifest, and those of its references.
    ``environment`` is whole, with what the image sets; ``image_environment`` is what the image alone sets. Times are
    as the engine writes them; None where there is none.
    """

    id: str
    name: str
    image: str
    image_ids: tuple[str, ...]
    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    image_environment: tuple[tuple[str, str], ...]
    mounts: tuple[Mounted, ...]
    labels: Mapping[str, str]
    host: Mapping[str, Json]
    """The engine's settings of the container: network, limits, devices, capabilities, as ``HostConfig`` names them."""
    state: str
    exit_code: int | None
    oom_killed: bool
    error: str
    started: str | None
    finished: str | None
    pid: int | None
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSeen:
    """A memory guard as it is seen: its phase, whether its process lives, and what its ready file says.

    ``code`` is the exit code of one that has ended (docs/memory-guard.md); minus the signal's number where a signal
    ended it. None while it lives, and where nobody knows it any more: systemd forgets a unit that ended well, not one
    that failed. One that was halted by a signal has a ``pid``, and is not ``alive``.
    """

    phase: str
    alive: bool
    says: str | None
    unit: str | None
    pid: int | None
    code: int | None = None
