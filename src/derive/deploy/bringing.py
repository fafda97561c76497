# SPDX-License-Identifier: Apache-2.0
"""The image on one node: what its engine lacks, the room there is, the pull, and what the engine shows afterwards.

Edge: a loopback server, the node and its engine, the clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from derive.deploy import engines
from derive.deploy.effects import Wanted, facts
from derive.deploy.image_facts import PART_BYTES, PART_LABEL, Match, Need, differing, judged, need, parts
from derive.deploy.node_errors import ConnectionLost, EngineRefuses, NodeError, NodeSlow, NodeUnreachable
from derive.deploy.pulling import Heard, PullFailed, pull, remove_parts
from derive.deploy.serve import items_of, serving
from derive.deploy.stored_image import known_blobs
from derive.words import count_text, one_line, size_text

if TYPE_CHECKING:
    from asyncio import Future

    from docker import DockerClient

    from derive.canonical import Digest
    from derive.deploy.engines import ImageSeen
    from derive.deploy.image_facts import ImageFacts
    from derive.deploy.remote import Node
    from derive.deploy.serve import Given
    from derive.store.local import LocalStore

T = TypeVar("T")

EFFECT = "image"
_TRIES = 3
_CONTAINERD_FOLDER = "/var/lib/containerd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """The image, and where engines are to find it: a repository of a registry; ``port`` where that is on loopback."""

    image: ImageFacts
    repository: str
    port: int | None

    @property
    def reference(self) -> str:
        """What a container is started by."""
        return f"{self.repository}@{self.image.manifest.digest}"

    @property
    def name(self) -> str:
        """The repository's name within its registry."""
        return self.repository.partition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How the image is moved: to how many nodes at once, in parts of which size, how often it is told how far it is.

    ``stalled_s`` is how long nothing may move and the engine say nothing: it is silent while it writes a layer out.
    ``port_s`` is how long the node's port may be another one's: that of a connection which was lost a moment ago.
    ``again_s`` is how long a node that was lost may be out of reach.
    """

    at_once: int = 4
    part_bytes: int = PART_BYTES
    tick_s: float = 10.0
    stalled_s: float = 300.0
    port_s: float = 15.0
    again_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLook:
    """What an engine lacks of the image, whether it keeps blobs, and in which folder images lie."""

    need: Need
    match: Match | None
    keeps_blobs: bool
    root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """How the image came to a node: bytes of blobs that left here (None: from a registry), and how it is known there.

    ``layers`` are those that were missing. ``was_there`` says that nothing had to be done.
    """

    was_there: bool
    layers: int
    moved_bytes: int | None
    match: Match


async def look(node: Node, sought: Sought, store: LocalStore) -> EngineLook:
    """Ask a node's engine what it has of the image.

    Raises:
        EngineRefuses: when it does not answer.
    """
    said, seen = await _asked(node, engines.engine_facts), await _seen(node)
    keeps_blobs = said["image_store"] == "containerd"
    blobs = known_blobs(store, (one.id for one in seen)) if keeps_blobs else frozenset()
    named = next((one for one in seen if sought.reference in one.names), None)
    return EngineLook(
        need=need(sought.image, sought.reference, seen, blobs),
        match=None if named is None else judged(sought.image, named),
        keeps_blobs=keeps_blobs,
        root=str(said["root"]),
    )


async def _seen(node: Node) -> list[ImageSeen]:
    return await _asked(node, engines.images)


async def _asked(node: Node, function: Callable[[DockerClient], T]) -> T:
    client = await node.open_engine()
    try:
        return await asyncio.to_thread(function, client)
    except engines.EngineGone as gone:
        raise EngineRefuses(gone.message, node=node.name, effect=EFFECT, detail=gone.detail, hint=gone.hint) from gone


async def require_room(node: Node, found: EngineLook, unpacked: Mapping[Digest, int]) -> None:
    """Require room for what a node lacks, its layers written out included.

    Raises:
        NodeError: when there is less.
    """
    room = found.need.room_bytes(unpacked)
    if not room:
        return
    folders = (found.root, *((_CONTAINERD_FOLDER,) if found.keeps_blobs else ()))
    answer: Any = await facts(node, Wanted(folders=folders, modules=()))
    space = answer["space"]
    if space is None:
        unread = [one for one in answer["unread"] if one.startswith("space")]
        raise NodeError("how much room there is cannot be read", node=node.name, effect=EFFECT, detail=unread)
    for folder in folders:
        free = space[folder]["free_bytes"]
        if free < room:
            count = count_text(len(found.need.unpack), "layer")
            raise NodeError(
                f"too little room for the image in {folder}",
                node=node.name,
                effect=EFFECT,
                detail=(
                    f"needed    {size_text(room)}: {count} as moved and written out, and 1 GiB to spare",
                    f"free      {size_text(free)}",
                ),
                hint="docker image ls, there; docker image rm what is needed no more; then ask again",
            )


@dataclass(slots=True, kw_only=True)
class Bringing:
    """One node that the image is brought to; ``say`` is told how far that is. ``moved_bytes`` have left here so far."""

    node: Node
    sought: Sought
    store: LocalStore
    say: Callable[[str], None]
    threads: Executor
    pace: Pace
    moved_bytes: int = 0

    async def bring(self, found: EngineLook) -> Moved:
        """Bring what is missing, and read the image back; where the connection breaks, go on with what is left.

        Raises:
            EngineRefuses: when the engine could not pull, or then shows another image.
            NodeSlow: when nothing moved for minutes.
            NodeError: when there is no connection any more, or no way to the port.
        """
        if found.match is not None:
            return self._moved(0, found.match, was_there=True)
        lacking, tries = found.need, 1
        while True:
            number = self.node.connection_number
            try:
                if tries > 1:
                    lacking = await self._lacking_again()
                await self._pull_through(found, lacking)
                return self._moved(len(found.need.move), await self._required(), was_there=False)
            except NodeError as error:
                # Somebody else who asks the node, such as for its lease, may have opened it anew already.
                is_lost = isinstance(error, ConnectionLost) or self.node.connection_number != number
                if tries == _TRIES or not is_lost:
                    raise
            tries += 1
            self.say("the connection was lost; going on with what is missing")

    async def _lacking_again(self) -> Need:
        """Return what is still missing; a node whose network is away for a moment is waited for."""
        until = time.monotonic() + self.pace.again_s
        while True:
            try:
                return (await look(self.node, self.sought, self.store)).need
            except NodeUnreachable:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(1)

    def _moved(self, layers: int, match: Match, *, was_there: bool) -> Moved:
        moved_bytes = None if self.sought.port is None else self.moved_bytes
        return Moved(was_there=was_there, layers=layers, moved_bytes=moved_bytes, match=match)

    async def _pull_through(self, found: EngineLook, lacking: Need) -> None:
        """Pull, by way of this process's own server where the site does not name another registry."""
        image, port = self.sought.image, self.sought.port
        if port is None:
            self.say(f"pulls {_amount(lacking)} from {self.sought.repository}")
            await self._pull((), lacking, None)
            return
        by_parts = () if found.keeps_blobs else parts(image, lacking, self.pace.part_bytes)
        self.say(f"pulls {_amount(lacking)}")
        items = items_of(self.store, image, self.sought.name, by_parts)
        with serving(items) as server:
            try:
                async with AsyncExitStack() as stack:
                    await self._lead(stack, server.port, port)
                    await self._pull(tuple(part.digest for part in by_parts), lacking, server.given)
            finally:
                self.moved_bytes += server.given.sent_bytes

    async def _lead(self, stack: AsyncExitStack, here: int, there: int) -> None:
        """Lead the node's port here; whoever led it somewhere before, and was lost, may keep it for a moment."""
        until = time.monotonic() + self.pace.port_s
        while True:
            try:
                await stack.enter_async_context(self.node.port_there(here, there))
            except NodeError as error:
                if type(error) is not NodeError or time.monotonic() > until:
                    raise
                await asyncio.sleep(0.5)
            else:
                return

    async def _pull(self, smaller: tuple[Digest, ...], lacking: Need, given: Given | None) -> None:
        """Have the engine pull the image, and smaller ones beside it: they share what is moved."""
        client = await self.node.open_engine()
        loop, heard = asyncio.get_running_loop(), Heard()
        begin = partial(pull, client, self.sought.repository, self.sought.image.platform, heard, ours=given is not None)
        others = [loop.run_in_executor(self.threads, begin, digest) for digest in smaller]
        whole = loop.run_in_executor(self.threads, begin, self.sought.image.manifest.digest)
        try:
            await self._followed(whole, lacking, given, heard)
            # What went wrong with one of these is of no account: all of it is in the whole image.
            await asyncio.gather(*others, return_exceptions=True)
            await asyncio.to_thread(remove_parts, client, PART_LABEL)
        except PullFailed as error:
            raise self._refused(error) from error
        finally:
            heard.stop()
            for other in (whole, *others):
                other.cancel()

    async def _followed(self, whole: Future[None], lacking: Need, given: Given | None, heard: Heard) -> None:
        """Wait for a pull, and tell how far it is now and then."""
        began = last = time.monotonic()
        before = (0, 0)
        while not (await asyncio.wait({whole}, timeout=self.pace.tick_s))[0]:
            now, sent = time.monotonic(), 0 if given is None else given.sent_bytes
            if (sent, heard.lines) != before:
                before, last = (sent, heard.lines), now
            elif now - last > self.pace.stalled_s:
                hint = "look at the node and its network, then ask again: what came is kept"
                raise NodeSlow(f"nothing moved for {now - last:.0f} s", node=self.node.name, effect=EFFECT, hint=hint)
            if given is not None and sent < lacking.move_bytes:
                speed = size_text(int(sent / (now - began)))
                self.say(f"{size_text(sent)} of {size_text(lacking.move_bytes)}, {speed}/s")
        await whole

    def _refused(self, error: PullFailed) -> EngineRefuses:
        said = error.message
        hint = "ask again: what came is kept; on the node, journalctl --unit docker says more"
        if "no space left" in said:
            hint = "make room, there: docker image ls, docker image rm; then ask again"
        message = "the engine could not pull the image"
        return EngineRefuses(message, node=self.node.name, effect=EFFECT, detail=(one_line(said)[:300],), hint=hint)

    async def _required(self) -> Match:
        """Return how the engine knows the image that it was told to pull; raises where it shows another one."""
        seen = await _seen(self.node)
        named = next((one for one in seen if self.sought.reference in one.names), None)
        match = None if named is None else judged(self.sought.image, named)
        if match is None:
            raise EngineRefuses(
                "the engine shows another image than it was told to pull",
                node=self.node.name,
                effect=EFFECT,
                detail=differing(self.sought.image, named),
                hint=f"docker image inspect {self.sought.reference}, there",
            )
        return match


def _amount(lacking: Need) -> str:
    return f"{count_text(len(lacking.move), 'layer')}, {size_text(lacking.move_bytes)}"
