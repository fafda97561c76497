# SPDX-License-Identifier: Apache-2.0
"""A node's engine through SSH, with images in either store: containers are seen as they are, and what is done twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from derive.deploy import engines
from derive.deploy.model import Container, Mounted
from derive.deploy.node_errors import ConnectionLost, EngineRefuses
from derive.deploy.remote import Node
from support.busybox import busybox_image
from support.docker_engine import DockerEngine, ImageStore, default_binaries, docker_engine, why_unavailable
from support.nodes import AtNode, Sshd, connected, sshd_nodes
from support.require import skip_or_fail

pytestmark = pytest.mark.docker

IMAGE = "derive-nodes"
SCRIPT = "echo out; echo err >&2; exit 7"


@pytest.fixture(params=list(ImageStore), ids=lambda store: store.value, scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[DockerEngine]:
    reason = why_unavailable(default_binaries())
    if reason is not None:
        skip_or_fail(reason)
    with docker_engine(store=request.param, binaries=default_binaries()) as running:
        busybox_image(running, IMAGE)
        yield running


@pytest.fixture(scope="module")
def sshd(engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    folder = tmp_path_factory.mktemp("ssh") / "sshd"
    with sshd_nodes(folder, engine_socket=engine.url.removeprefix("unix://")) as running:
        yield running


@pytest.fixture(scope="module")
def at_node(sshd: Sshd) -> Iterator[AtNode]:
    with connected(sshd) as at:
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
        assert not await node.ask(engines.kill, "one")
        assert await node.ask(engines.rename, "one", "two")
        assert not await node.ask(engines.rename, "one", "two")
        with pytest.raises(EngineRefuses, match="the container engine refused") as caught:
            await node.ask(engines.rename, "one", "three")
        assert caught.value.where == "spark1: rename"
        assert await node.ask(engines.remove, "two")
        assert not await node.ask(engines.remove, "two")

    at_node(done)


def test_after_a_lost_connection_the_same_client_leads_to_the_engine_again(sshd: Sshd, at_node: AtNode) -> None:
    async def lost(node: Node) -> None:
        client = await node.open_engine()
        assert sshd.cut()
        with pytest.raises(ConnectionLost):
            await node.run(["true"])
        assert (await node.run(["true"])).code == 0
        assert node.engine() is client
        assert "version" in await node.ask(engines.engine_facts)

    at_node(lost)
