# SPDX-License-Identifier: Apache-2.0
"""An image goes from the store to nodes by its digest: to engines of both kinds of image store, through real SSH."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from derive.deploy.bringing import Moved, Pace, Sought
from derive.deploy.distribute import distribute, missing
from derive.deploy.node_errors import SeveralNodes
from derive.deploy.remote import connect
from derive.deploy.stored_image import stored_image
from derive.errors import DeriveError
from derive.store.local import LocalStore
from support.engine_nodes import STORES, EngineNodes
from support.handmade import layer_tar, program_tar, stored
from support.nodes import until

pytestmark = pytest.mark.docker

MIB = 1 << 20
FAR_BYTES = 10 * MIB


@dataclass(slots=True)
class Place:
    """Two nodes, a store, and what was said of each node."""

    nodes: EngineNodes
    store: LocalStore
    said: list[tuple[str, str]]

    def image(self, *layers: bytes, name: str = "tiny") -> Sought:
        """Put an image into the store, and say where nodes are to find it."""
        digest = stored(self.store, layers)
        repository = f"{self.nodes.site.images}/{name}"
        return Sought(image=stored_image(self.store, digest), repository=repository, port=5170)

    def bring(self, wanted: Sought, **pace: float) -> dict[str, Moved]:
        """Distribute an image; it is what a deploy does."""

        async def all_of_it() -> dict[str, Moved]:
            async with connect(self.nodes.site, self.nodes.settings) as nodes:
                return await distribute(nodes, wanted, self.store, self._say, Pace(**pace))  # type: ignore[arg-type]

        return asyncio.run(all_of_it())

    def lacking(self, wanted: Sought) -> dict[str, int | DeriveError]:
        """Ask what is missing."""

        async def asked() -> dict[str, int | DeriveError]:
            async with connect(self.nodes.site, self.nodes.settings) as nodes:
                return await missing(nodes, wanted, self.store)

        return asyncio.run(asked())

    def _say(self, node: str, text: str) -> None:
        self.said.append((node, text))


@pytest.fixture
def place(two_nodes: EngineNodes, tmp_path: Path) -> Iterator[Place]:
    with LocalStore(tmp_path / "store") as store:
        yield Place(two_nodes, store, [])


def test_l3_one_image_on_both_kinds_of_store_is_judged_equal_and_both_ids_are_shown(place: Place) -> None:
    wanted = place.image(program_tar(), layer_tar(1, MIB))
    came = place.bring(wanted)
    manifest, config = wanted.image.ids
    assert {name: (one.match.id, one.match.by) for name, one in came.items()} == {
        "spark1": (config, "config"),
        "spark2": (manifest, "manifest"),
    }
    told = {name: text for name, text in place.said if text.startswith("done")}
    for name, one in came.items():
        assert f"manifest {manifest.short}, config {config.short}; known by its {one.match.by}" in told[name]
        shown = place.nodes.docker(name, "image", "inspect", "--format={{.Id}}", wanted.reference)
        assert shown.stdout.strip() == str(one.match.id)


def test_a_container_starts_by_the_reference_without_a_pull_when_the_way_to_the_store_is_gone(place: Place) -> None:
    wanted = place.image(program_tar())
    place.bring(wanted)
    for name in STORES:
        ran = place.nodes.docker(name, "run", "--rm", "--pull=never", "--network=none", wanted.reference)
        assert (ran.returncode, ran.stdout) == (0, "it runs\n"), ran.stderr


def test_of_a_second_image_only_the_layers_move_that_are_not_there(place: Place) -> None:
    low, high, other = (layer_tar(seed, MIB // 4) for seed in (2, 3, 4))
    first = place.image(low, high)
    place.bring(first)
    # The third layer is one that both have already, upon others: a storage driver takes it for another.
    second = place.image(low, other, high)
    config, _, own, again = second.image.blobs[0], *(layer.blob for layer in second.image.layers)
    expected = {"spark1": own.size + again.size, "spark2": own.size}
    assert place.lacking(second) == expected
    came = place.bring(second)
    assert {name: one.moved_bytes for name, one in came.items()} == {
        name: size + config.size for name, size in expected.items()
    }
    assert all(one.was_there and not one.moved_bytes for one in place.bring(second).values())
    assert place.lacking(second) == dict.fromkeys(STORES, 0)


@dataclass(slots=True)
class Ear:
    """What a distribution says; ``far`` is set when so many bytes have moved."""

    texts: list[str] = field(default_factory=list)
    far: asyncio.Event = field(default_factory=asyncio.Event)
    far_bytes: int = FAR_BYTES

    def __call__(self, _: str, text: str) -> None:
        self.texts.append(text)
        if " of " in text and _moved(text) > self.far_bytes:
            self.far.set()

    async def until_far(self, task: asyncio.Task[dict[str, Moved]]) -> None:
        """Wait until it is far, and not done."""
        watch = asyncio.create_task(self.far.wait())
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        assert not task.done(), task


def test_a_pull_that_was_cut_off_goes_on_at_the_byte_with_containerd(place: Place) -> None:
    # More than is under way between the two at once, which an engine that is cut off has not got.
    far = 20 * MIB
    wanted, only = place.image(layer_tar(10, 4 * MIB), layer_tar(11, 32 * MIB)), place.nodes.only("spark2")

    async def cut_off() -> None:
        async with asyncio.timeout(120), connect(only.site, only.settings) as nodes:
            ear = Ear(far_bytes=far)
            task = asyncio.create_task(distribute(nodes, wanted, place.store, ear, Pace(tick_s=0.02)))
            await ear.until_far(task)
            with only.silent("spark2"):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    asyncio.run(cut_off())
    (came,) = Place(only, place.store, []).bring(wanted).values()
    assert not came.was_there
    assert came.moved_bytes is not None
    assert came.moved_bytes < sum(blob.size for blob in wanted.image.blobs) - far // 2


def test_a_connection_that_is_lost_in_a_pull_is_opened_anew_and_whole_layers_do_not_move_again(place: Place) -> None:
    wanted, only = place.image(layer_tar(20, 8 * MIB), layer_tar(21, 48 * MIB)), place.nodes.only("spark1")
    ear = Ear()

    async def lost() -> Moved:
        async with asyncio.timeout(120), connect(only.site, only.settings) as nodes:
            node = nodes["spark1"]
            pace = Pace(part_bytes=MIB, tick_s=0.02)
            task = asyncio.create_task(distribute(nodes, wanted, place.store, ear, pace))
            await asyncio.to_thread(only.await_part, "spark1")
            assert not task.done(), task
            only.cut("spark1")
            # Whoever renews the lease meanwhile may be the one who opens it anew.
            await until(lambda: node.connection_number != 1)
            await node.connect()
            return (await task)["spark1"]

    assert not asyncio.run(lost()).was_there
    assert "the connection was lost; going on with what is missing" in ear.texts
    assert [" ".join(text.split()[:3]) for text in ear.texts if text.startswith("pulls ")] == [
        "pulls 2 layers,",
        "pulls 1 layer,",
    ]
    assert only.parts("spark1") == []


def _moved(text: str) -> float:
    number, unit, *_ = text.split()
    return float(number) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]


def test_too_little_room_on_one_node_is_refused_before_anything_moves(place: Place) -> None:
    wanted = place.image(layer_tar(5, MIB))
    place.nodes.resize("900m")
    try:
        with pytest.raises(SeveralNodes) as caught:
            place.bring(wanted)
    finally:
        place.nodes.resize("3g")
    assert [problem.where for problem in caught.value.problems()] == ["spark1: image", "spark2: image"]
    assert all(problem.message.startswith("too little room") for problem in caught.value.problems())
    assert place.said == []
