# SPDX-License-Identifier: Apache-2.0
"""What one key can sign into a cache's log that is no true claim, and what a machine that trusts it makes of that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.cache.entry import Cost
from derive.cache.logs import append
from derive.canonical import sha256
from derive.derivations.model import FlatOutput, Output, parse_output
from derive.store.local import LocalStore
from derive.trust.keys import SigningKey
from derive.trust.statement import Claim
from support.oci_registry import Registry, registry
from support.pushing import remote_of
from support.sharing import Machine
from support.small import Small, small_project

BAD = SigningKey(b"z" * 32)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    with small_project(tmp_path_factory.mktemp("small")) as small:
        yield small


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory, small: Small) -> Machine:
    """Return ann's machine, which has built the image."""
    machine = Machine.make(tmp_path_factory.mktemp("machines"), "ann", small)
    machine.key("ann")
    assert machine.here("image").code == 0
    return machine


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def repository(tmp_path: Path, running: Registry, builder: Machine) -> str:
    """Return a repository that ann has pushed to."""
    name = f"team/{tmp_path.name.replace('_', '-').rstrip('-')}"
    builder.cache(running.url, repository=name)
    assert builder.here("cache", "push", "--key", "ann").code == 0
    builder.forget_cache()
    return name


@pytest.fixture
def reader(tmp_path: Path, small: Small, running: Registry, repository: str) -> Machine:
    """Return a machine that has nothing, and that cache."""
    machine = Machine.make(tmp_path, "reader", small)
    machine.cache(running.url, repository=repository)
    return machine


def sign(
    builder: Machine,
    url: str,
    repository: str,
    folder: Path,
    *,
    outputs: dict[str, Output] | None = None,
    size: int = 1000,
) -> None:
    """Have the bad key claim in a cache what ann built, with other outputs of one step, or with a size of its own."""
    claims = []
    with LocalStore(builder.store) as store:
        for name in ("hello", "small"):
            for _, _, resolved, _ in store.database.find_derivations(name):
                row = store.database.realisation(resolved)
                assert row is not None
                said = {one: parse_output(text) for one, text in row.outputs.items()}
                if outputs is not None and name == "hello":
                    said = outputs
                if outputs is None or name == "hello":
                    claims.append(Claim(resolved=resolved, builder=row.builder, outputs=said))
    costs = {one.resolved: Cost(name="x", size_bytes=size, duration_ns=1) for one in claims}
    with LocalStore(folder / "thief") as store:
        append(store.database, "http://x/y", remote_of(url, repository), BAD, claims, costs, {}, 1, aside_s=0)


@pytest.mark.parametrize("outputs", [{}, {"out": FlatOutput(sha256(b"x"))}], ids=["none", "a file"])
def test_a_claim_that_the_step_cannot_give_is_refused_and_spoils_no_store(
    reader: Machine, builder: Machine, running: Registry, repository: str, tmp_path: Path, outputs: dict[str, Output]
) -> None:
    sign(builder, running.url, repository, tmp_path, outputs=outputs)
    reader.trust({"bad": str(BAD.public)})
    done = reader.here("image")
    assert done.code == 1, done.err
    assert done.err.count("hello: bad vouches for outputs that such a step cannot give: not taken") == 1
    assert "hello: this machine and trusted builders contradict each other" in done.err
    assert "bad" in done.err
    with LocalStore(reader.store) as store:
        assert not store.database.find_derivations("hello")
    done = reader.here("image", "--no-cache")
    assert done.code == 0, done.err
    assert done.answer == builder.here("image").answer


@pytest.mark.parametrize("threshold", [1, 2])
def test_a_size_that_nothing_has_room_for_keeps_nothing_from_being_made(
    reader: Machine, builder: Machine, running: Registry, repository: str, tmp_path: Path, threshold: int
) -> None:
    sign(builder, running.url, repository, tmp_path, size=2**53 - 1)
    keys = {"bad": str(BAD.public)}
    if threshold == 2:
        keys["ann"] = builder.here("key", "show", "ann").answer
    reader.trust(keys, threshold=threshold)
    done = reader.here("image")
    assert done.code == 0, done.err
    assert done.answer == builder.here("image").answer
    assert done.err.count("outputs from team would not fit into the store (") == (threshold == 1)
