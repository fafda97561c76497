# SPDX-License-Identifier: Apache-2.0
"""A node's engine through SSH, with images in either store: containers are seen as they are, and what is done twice."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import docker
import pytest

from derive.deploy import engines
from derive.deploy.model import Container, Mounted
from derive.deploy.node_errors import ConnectionLost, EngineRefuses
from derive.deploy.remote import Node
from support.busybox import busybox_image
from support.docker_engine import DockerEngine, ImageStore
from support.engine_nodes import STORES, EngineNodes
from support.nodes import AtNode, connected

pytestmark = pytest.mark.docker

IMAGE = "derive-nodes"
SCRIPT = "echo out; echo err >&2; exit 7"


@pytest.fixture(params=list(STORES), scope="module")
def one_node(request: pytest.FixtureRequest, two_nodes: EngineNodes) -> EngineNodes:
    return two_nodes.only(request.param)


@pytest.fixture(scope="module")
def engine(one_node: EngineNodes) -> DockerEngine:
    running = one_node.engines[one_node.site.nodes[0].name]
    busybox_image(running, IMAGE)
    return running


@pytest.fixture(scope="module")
def at_node(one_node: EngineNodes) -> Iterator[AtNode]:
    with connected(one_node) as at:
        yield at


@pytest.fixture
def ended(engine: DockerEngine) -> Iterator[str]:
    container = engine.client.containers.create(
        IMAGE,
        ["sh", "-c", SCRIPT],
        entrypoint=["/busybox"],
        name="ended",
        environment={"A": "1", "B": "x=y"},
        labels={"io.derive.node": "spark1"},
        network_mode="none",
        volumes={"/etc": {"bind": "/host", "mode": "ro"}},
    )
    container.start()
    container.wait()
    yield "ended"
    container.remove(force=True)


def test_what_an_engine_is_and_has_is_told(at_node: AtNode, engine: DockerEngine) -> None:
    async def told(node: Node) -> None:
        facts = await node.ask(engines.engine_facts)
        stores = {ImageStore.CONTAINERD: "containerd", ImageStore.OVERLAY2: "graphdriver"}
        assert facts["image_store"] == stores[engine.store]
        assert facts["version"] == engine.client.version()["Version"]
        assert "runc" in facts["runtimes"]  # type: ignore[operator]
        assert str(facts["root"]).startswith(str(engine.folder))
        images = await node.ask(engines.images)
        (seen,) = (image for image in images if f"{IMAGE}:latest" in image.names)
        assert (await node.ask(engines.image_ids, IMAGE))[0] == seen.id
        assert len(seen.layers) == 1
        assert await node.ask(engines.image_ids, "no-such-image") == ()

    at_node(told)


def test_a_container_is_seen_as_it_was_made_and_as_it_ended(at_node: AtNode, ended: str) -> None:
    async def seen(node: Node) -> list[Container]:
        assert await node.ask(engines.containers, ["no-such-container"]) == []
        return await node.ask(engines.containers, [ended])

    (container,) = at_node(seen)
    assert (container.name, container.entrypoint, container.arguments) == (ended, ("/busybox",), ("sh", "-c", SCRIPT))
    assert {("A", "1"), ("B", "x=y")} <= set(container.environment)
    assert not {("A", "1"), ("B", "x=y")} & set(container.image_environment)
    assert container.mounts == (Mounted(type="bind", source="/etc", target="/host", read_only=True),)
    assert container.labels["io.derive.node"] == "spark1"
    assert (container.state, container.exit_code, container.oom_killed, container.pid) == ("exited", 7, False, None)
    assert container.started is not None
    assert container.finished is not None
    assert container.host["NetworkMode"] == "none"
    assert container.image_ids


def test_what_it_wrote_is_read_whole_in_part_and_as_it_comes(at_node: AtNode, ended: str) -> None:
    async def read(node: Node) -> None:
        assert sorted((await node.ask(engines.logs, ended)).split()) == [b"err", b"out"]
        assert len((await node.ask(engines.logs, ended, tail=1)).split()) == 1
        followed = await node.ask(lambda client: list(engines.follow(client, ended)))
        assert sorted(b"".join(followed).split()) == [b"err", b"out"]

    at_node(read)


def test_what_is_done_to_a_container_may_be_asked_for_twice(at_node: AtNode, engine: DockerEngine) -> None:
    async def done(node: Node) -> None:
        engine.client.containers.create(IMAGE, ["/busybox", "sleep", "60"], name="one", network_mode="none")
        assert await node.ask(engines.start, "one")
        assert not await node.ask(engines.start, "one")
        (running,) = await node.ask(engines.containers, ["one"])
        assert (running.state, running.exit_code, running.finished) == ("running", None, None)
        assert running.pid is not None
        assert await node.ask(engines.stop, "one", 0)
        assert not await node.ask(engines.stop, "one", 0)
        assert await node.ask(engines.rename, "one", "two")
        assert not await node.ask(engines.rename, "one", "two")
        with pytest.raises(EngineRefuses, match="the container engine refused") as caught:
            await node.ask(engines.rename, "one", "three")
        assert caught.value.where == f"{node.name}: rename"
        assert await node.ask(engines.remove, "two")
        assert not await node.ask(engines.remove, "two")

    at_node(done)


def test_after_a_lost_connection_the_same_client_leads_to_the_engine_again(
    one_node: EngineNodes, at_node: AtNode
) -> None:
    async def lost(node: Node) -> None:
        client = await node.open_engine()
        one_node.cut(node.name)
        with pytest.raises(ConnectionLost):
            await node.run(["true"])
        assert (await node.run(["true"])).code == 0
        assert await node.open_engine() is client
        assert "version" in await node.ask(engines.engine_facts)

    at_node(lost)


def test_an_answer_that_breaks_off_is_a_lost_connection_though_somebody_else_has_opened_another(
    one_node: EngineNodes, at_node: AtNode, engine: DockerEngine
) -> None:
    container = engine.client.containers.create(
        IMAGE, ["/busybox", "sleep", "60"], name="waited-for", network_mode="none"
    )
    container.start()

    async def broken(node: Node) -> None:
        begun, again = threading.Event(), threading.Event()

        def waits(client: docker.DockerClient) -> None:
            begun.set()
            try:
                client.api.wait("waited-for")
            except engines.refusals() as error:
                again.wait(20)
                raise engines.EngineGone("it broke off") from error

        under_way = asyncio.create_task(node.ask(waits))
        await asyncio.to_thread(begun.wait, 20)
        await asyncio.sleep(0.2)
        one_node.cut(node.name)
        with contextlib.suppress(ConnectionLost):
            await node.run(["true"])
        await node.connect()
        again.set()
        with pytest.raises(ConnectionLost):
            await under_way

    try:
        at_node(broken)
    finally:
        container.remove(force=True)
