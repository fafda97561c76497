# SPDX-License-Identifier: Apache-2.0
"""What a push sends: every blob once, however many outputs need it at the same moment."""

from __future__ import annotations

import re
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from derive.cache.artifact import output_tag
from derive.cache.sending import Sender
from derive.canonical import sha256
from derive.derivations.model import Output, TreeOutput
from derive.net.failures import Failure
from derive.store.local import LocalStore
from derive.trees.listing import File, Listing, Location
from derive.trees.pack import NewFile, add_members
from support.archives import put
from support.faults import FaultProxy
from support.oci_registry import Registry, registry
from support.pushing import Told, noise, remote_of

BIG = noise(2 << 20)
OTHERS = tuple(noise(1 << 20, seed) for seed in range(1, 9))
STREAM = zlib.compress(bytes(byte & 0x7F for byte in BIG), 6, -15)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def proxy(real: Registry) -> Iterator[FaultProxy]:
    with FaultProxy(real.host) as found:
        yield found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as found:
        yield found


@pytest.fixture
def sender(store: LocalStore, proxy: FaultProxy, tmp_path: Path) -> Sender:
    """Return what sends to a repository that is empty."""
    told = Told()
    repository = f"team/{tmp_path.name.replace('_', '-').lower()}"
    return Sender(store=store, remote=remote_of(proxy.url, repository, told), progress=told)


def tree_of(store: LocalStore, files: Mapping[bytes, bytes]) -> Output:
    """Keep a tree whose contents lie where no other tree's do."""
    members = ((path, NewFile(executable=False, chunks=[data])) for path, data in files.items())
    return TreeOutput(store.add_listing(add_members(store, members)))


def streamed(store: LocalStore) -> tuple[Output, Output]:
    """Keep a tree of what a deflate stream holds, and one of the stream itself: both travel as the stream."""
    plain = zlib.decompress(STREAM, -15)
    packed = File(False, len(plain), sha256(plain), Location(put(store, STREAM), 0, len(STREAM), "deflate"))
    one = TreeOutput(store.add_listing(Listing.of({b"plain": packed})))
    return one, tree_of(store, {b"stream": STREAM})


def taken(data: bytes) -> str:
    """Return what the requests that end an upload of a blob look like."""
    return f"PUT .*digest=sha256(:|%3A){sha256(data).hex}"


def wait_for(proxy: FaultProxy, pattern: str, count: int) -> None:
    """Wait until so many requests that fit were answered."""
    deadline = time.monotonic() + 20
    while sum(one.status == 201 for one in proxy.seen if re.search(pattern, f"{one.method} {one.path}")) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_two_trees_have_in_common_is_sent_once_and_counted_once(
    store: LocalStore, proxy: FaultProxy, sender: Sender
) -> None:
    trees = [tree_of(store, {b"big": BIG, b"own": b"tree %d" % number}) for number in range(4)]
    sender.send(trees, frozenset())
    assert proxy.count(taken(BIG)) == 1
    assert sender.sent.outputs == 4
    assert sender.sent.size == proxy.sent(r"/blobs/")
    assert sender.sent.blobs == proxy.count(r"PUT .*/blobs/")


def test_a_blob_that_is_being_sent_is_waited_for_while_others_go_on(
    store: LocalStore, proxy: FaultProxy, sender: Sender
) -> None:
    others = {b"z%d" % number: data for number, data in enumerate(OTHERS)}
    trees = [*streamed(store), tree_of(store, others)]
    held = proxy.add(taken(STREAM), "gate", at=1 << 20)
    push = threading.Thread(target=sender.send, args=(trees, frozenset()))
    push.start()
    try:
        assert held.reached.wait(20)
        for data in OTHERS:
            wait_for(proxy, taken(data), 1)
        assert proxy.count(taken(STREAM)) == 1
    finally:
        held.gate.set()
        push.join()
    assert proxy.count(taken(STREAM)) == 2  # the one that was held breaks off
    assert sender.sent.outputs == 3
    assert sender.sent.size == proxy.sent(r"/blobs/") - (1 << 20)


def test_what_one_could_not_send_another_that_needs_it_sends(
    store: LocalStore, proxy: FaultProxy, sender: Sender
) -> None:
    trees = streamed(store)
    proxy.add(taken(STREAM), "status", status=403)
    with pytest.raises(Failure):
        sender.send(trees, frozenset())
    assert proxy.count(taken(STREAM)) == 2
    assert sender.remote.head_blob(sha256(STREAM)) == (True, len(STREAM))


def test_contents_that_the_repository_holds_are_not_sent(store: LocalStore, proxy: FaultProxy, sender: Sender) -> None:
    sender.send([tree_of(store, {b"big": BIG})], frozenset())
    before = sender.sent.size
    again = Sender(store=store, remote=sender.remote, progress=Told())
    made = tree_of(store, {b"other": BIG})
    again.send([made], frozenset())
    assert proxy.count(taken(BIG)) == 1
    assert again.sent.size < 4096 < before
    assert again.remote.manifest(output_tag(made)) is not None
