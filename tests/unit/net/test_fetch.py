# SPDX-License-Identifier: Apache-2.0
"""Fetching by hash, against a server that misbehaves."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, DeriveError, HostRefuses, Interrupted, Unavailable, UpstreamGone
from derive.net.fetch import Fetcher
from derive.net.http import Settings
from derive.net.places import DebPath, FixedMirrors, Mirror, Named, Place, PlainUrl, Wanted, WheelFile
from derive.store.local import LocalStore
from derive.store.memory import MemoryStore, MemoryWriter
from support.servers import FaultServer, Reply

BODY = bytes(range(256)) * 4096
QUICK = Settings(
    connect_s=1, read_s=0.4, attempts=3, first_delay_s=0.01, longest_delay_s=0.02, slowest=1000, slow_window_s=0.3
)
PATH = "pool/main/h/hello/hello_2.10-5_amd64.deb"


class Told:
    """Collects what a fetch tells."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.counts: dict[str, int] = {}
        self.ended: list[str] = []

    def start(self, name: str, size: int | None) -> None:
        self.counts.setdefault(name, 0)

    def advance(self, name: str, count: int) -> None:
        self.counts[name] += count

    def done(self, name: str) -> None:
        self.ended.append(name)

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def other() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def deb(body: bytes = BODY, *, size: int | None = None, name: str = "hello") -> Wanted:
    return Wanted(
        name=name,
        version="2.10-5",
        locator=DebPath(archive="debian", path=PATH.replace("hello", name)),
        sha256=sha256(body),
        size=len(body) if size is None else size,
    )


def fetcher(store: MemoryStore, *urls: str, told: Told | None = None, settings: Settings = QUICK) -> Fetcher:
    mirrors = tuple(Mirror(url=url) for url in urls)
    fixed = FixedMirrors(debian_archives=mirrors, python_indices=mirrors)
    return Fetcher(store=store, mirrors=fixed, progress=told, settings=settings)


def contents(store: MemoryStore, digest: Digest) -> bytes:
    return b"".join(store.read_blob(digest))


def test_a_blob_that_is_there_is_not_fetched_again(server: FaultServer) -> None:
    store = MemoryStore()
    with store.blob_writer() as writer:
        writer.write(BODY)
        writer.commit()
    with fetcher(store, server.url) as fetch:
        assert fetch.fetch(deb()) == sha256(BODY)
    assert server.requests == []


def test_without_reuse_the_locator_itself_must_serve_it(server: FaultServer) -> None:
    store = MemoryStore()
    with store.blob_writer() as writer:
        writer.write(BODY)
        writer.commit()
    with fetcher(store, server.url) as fetch, pytest.raises(UpstreamGone):
        fetch.fetch(deb(), reuse=False)


def test_a_whole_answer_is_stored_and_its_bytes_are_counted(server: FaultServer) -> None:
    store, told = MemoryStore(), Told()
    server.serve(f"/{PATH}", Reply(body=BODY))
    with fetcher(store, server.url, told=told) as fetch:
        fetch.fetch(deb())
    assert contents(store, sha256(BODY)) == BODY
    assert told.counts == {"hello_2.10-5_amd64.deb": len(BODY)}
    assert told.ended == ["hello_2.10-5_amd64.deb"]


def test_a_broken_transfer_is_resumed_where_it_ended(server: FaultServer) -> None:
    store, told = MemoryStore(), Told()
    server.serve(f"/{PATH}", Reply(body=BODY, cut=300_000), Reply(body=BODY))
    with fetcher(store, server.url, told=told) as fetch:
        fetch.fetch(deb())
    assert contents(store, sha256(BODY)) == BODY
    assert server.requests[1].headers["range"] == "bytes=300000-"
    assert told.counts == {"hello_2.10-5_amd64.deb": len(BODY)}


def test_a_server_that_ignores_range_sends_the_beginning_in_vain(server: FaultServer) -> None:
    store = MemoryStore()
    server.serve(f"/{PATH}", Reply(body=BODY, cut=300_000), Reply(body=BODY, ranges=False))
    with fetcher(store, server.url) as fetch:
        fetch.fetch(deb())
    assert contents(store, sha256(BODY)) == BODY


def test_a_file_always_truncated_is_an_error_that_says_how_far_it_came(server: FaultServer) -> None:
    store = MemoryStore()
    server.serve(f"/{PATH}", Reply(body=BODY, cut=1000, ranges=False))
    with fetcher(store, server.url) as fetch, pytest.raises(Unavailable) as caught:
        fetch.fetch(deb())
    assert not store.has_blob(sha256(BODY))
    assert "broke off" in caught.value.detail[0]
    assert len(server.requests) == QUICK.attempts


def test_a_short_file_without_a_stated_length_is_noticed(server: FaultServer) -> None:
    server.serve(f"/{PATH}", Reply(body=BODY[:5000], length=False, ranges=False))
    with fetcher(MemoryStore(), server.url) as fetch, pytest.raises(Unavailable) as caught:
        fetch.fetch(deb())
    assert f"ends after 5000 of {len(BODY)} bytes" in caught.value.detail[0]


def test_pieces_of_two_files_joined_are_fetched_once_more_from_nothing(server: FaultServer) -> None:
    store = MemoryStore()
    other = bytes(len(BODY))
    server.serve(f"/{PATH}", Reply(body=other, cut=300_000), Reply(body=BODY), Reply(body=BODY))
    with fetcher(store, server.url) as fetch:
        fetch.fetch(deb())
    assert contents(store, sha256(BODY)) == BODY
    assert "range" not in server.requests[2].headers


def test_wrong_bytes_are_corrupt_with_expected_and_got(server: FaultServer) -> None:
    store = MemoryStore()
    wrong = bytes(len(BODY))
    server.serve(f"/{PATH}", Reply(body=wrong))
    with fetcher(store, server.url) as fetch, pytest.raises(Corrupt) as caught:
        fetch.fetch(deb())
    assert caught.value.detail[:2] == (f"expected  {sha256(BODY)}", f"got       {sha256(wrong)}")
    assert server.url in caught.value.detail[2]
    assert not store.has_blob(sha256(wrong))


@pytest.mark.parametrize("length", [True, False])
def test_a_longer_file_is_refused_without_reading_it_all(server: FaultServer, length: bool) -> None:
    server.serve(f"/{PATH}", Reply(body=BODY + b"!", length=length))
    with fetcher(MemoryStore(), server.url) as fetch, pytest.raises(Corrupt) as caught:
        fetch.fetch(deb())
    assert caught.value.detail[0] == f"expected  {len(BODY)} bytes"


def test_wrong_bytes_of_one_mirror_are_told_and_the_next_one_is_used(server: FaultServer, other: FaultServer) -> None:
    store, told = MemoryStore(), Told()
    server.serve(f"/{PATH}", Reply(body=bytes(len(BODY))))
    other.serve(f"/{PATH}", Reply(body=BODY))
    with fetcher(store, server.url, other.url, told=told) as fetch:
        fetch.fetch(deb())
    assert told.notes == [f"another mirror was used: {server.url}/{PATH}: served other bytes"]


def test_a_file_that_no_mirror_has_is_gone_with_the_places_tried(server: FaultServer, other: FaultServer) -> None:
    other.serve(f"/{PATH}", Reply(status=410))
    with fetcher(MemoryStore(), server.url, other.url) as fetch, pytest.raises(UpstreamGone) as caught:
        fetch.fetch(deb())
    assert caught.value.message == f"hello 2.10-5: no mirror serves {PATH}"
    assert caught.value.detail == (
        f"tried     {server.url}/{PATH}: 404 Not Found",
        f"tried     {other.url}/{PATH}: 410 Gone",
    )
    assert "derive lock --update hello" in str(caught.value.hint)


def test_gone_on_one_mirror_and_silent_on_another_is_not_gone(server: FaultServer) -> None:
    dead = closed_port()
    with fetcher(MemoryStore(), server.url, dead) as fetch, pytest.raises(Unavailable) as caught:
        fetch.fetch(deb())
    assert not isinstance(caught.value, UpstreamGone)
    assert caught.value.detail[1].endswith("connection refused")


def test_errors_of_the_server_are_tried_again_and_then_told(server: FaultServer) -> None:
    store = MemoryStore()
    server.serve(f"/{PATH}", Reply(status=500), Reply(status=503), Reply(body=BODY))
    with fetcher(store, server.url) as fetch:
        fetch.fetch(deb())
    server.serve(f"/{PATH}", Reply(status=500))
    with fetcher(MemoryStore(), server.url) as fetch, pytest.raises(Unavailable) as caught:
        fetch.fetch(deb())
    assert caught.value.detail[0].endswith("500 Internal Server Error")
    assert len(server.requests) == 3 + QUICK.attempts


def test_too_many_requests_waits_as_long_as_asked(server: FaultServer) -> None:
    server.serve(f"/{PATH}", Reply(status=429, headers={"Retry-After": "1"}), Reply(body=BODY))
    start = time.monotonic()
    with fetcher(MemoryStore(), server.url) as fetch:
        fetch.fetch(deb())
    assert time.monotonic() - start >= 1


def test_forbidden_is_not_tried_again(server: FaultServer) -> None:
    server.serve(f"/{PATH}", Reply(status=403))
    with fetcher(MemoryStore(), server.url) as fetch, pytest.raises(Unavailable):
        fetch.fetch(deb())
    assert len(server.requests) == 1


def test_a_hanging_mirror_is_said_once_skipped_for_the_run_and_the_next_one_used(
    server: FaultServer, other: FaultServer
) -> None:
    store, told = MemoryStore(), Told()
    bodies = {name: name.encode() * 1000 for name in ("hello", "second", "third")}
    for name, body in bodies.items():
        server.serve("/" + PATH.replace("hello", name), Reply(hang=True))
        other.serve("/" + PATH.replace("hello", name), Reply(body=body))
    with fetcher(store, server.url, other.url, told=told) as fetch:
        for name, body in bodies.items():
            fetch.fetch(deb(body, name=name))
    assert told.notes == [f"{server.url} does not answer (no answer in 0.4 s): skipped from now on"]
    assert len(server.requests) == QUICK.attempts


def test_a_dripping_mirror_does_not_hold_the_run_up(server: FaultServer) -> None:
    server.serve(f"/{PATH}", Reply(body=BODY, drip=0.02))
    start = time.monotonic()
    with fetcher(MemoryStore(), server.url) as fetch, pytest.raises(Unavailable) as caught:
        fetch.fetch(deb())
    assert "bytes in" in caught.value.detail[0]
    assert time.monotonic() - start < 10


def test_credentials_are_shown_nowhere(server: FaultServer) -> None:
    told = Told()
    url = server.url.replace("http://", "http://user:secret@")
    with fetcher(MemoryStore(), url, told=told) as fetch, pytest.raises(UpstreamGone) as caught:
        fetch.fetch(deb())
    shown = f"{caught.value} {caught.value.detail} {caught.value.hint} {told.notes}"
    assert "secret" not in shown
    assert server.requests[0].headers["authorization"].startswith("Basic ")


def test_offline_names_what_is_missing(server: FaultServer) -> None:
    mirrors = FixedMirrors(debian_archives=(Mirror(url=server.url),))
    with (
        Fetcher(store=MemoryStore(), mirrors=mirrors, offline=True) as fetch,
        pytest.raises(Unavailable, match="not in the store, and nothing is fetched offline"),
    ):
        fetch.fetch(deb())
    assert server.requests == []


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        (
            "application/vnd.pypi.simple.v1+json",
            '{"files": [{"filename": "x-1-py3-none-any.whl", "url": "../../files/x-1-py3-none-any.whl"}]}',
        ),
        ("text/html; charset=utf-8", '<a href="../../files/x-1-py3-none-any.whl#sha256=0">x-1-py3-none-any.whl</a>'),
    ],
)
def test_a_wheel_is_found_through_its_project_page(server: FaultServer, kind: str, page: str) -> None:
    store = MemoryStore()
    server.serve("/simple/x/", Reply(body=page.encode(), headers={"Content-Type": kind}))
    server.serve("/files/x-1-py3-none-any.whl", Reply(body=BODY))
    wanted = wheel("x-1-py3-none-any.whl")
    with fetcher(store, f"{server.url}/simple") as fetch:
        fetch.fetch(wanted)
        fetch.fetch(wanted, reuse=False)
    assert contents(store, sha256(BODY)) == BODY
    assert server.paths().count("/simple/x/") == 1


def test_a_wheel_that_its_project_no_longer_lists_is_gone(server: FaultServer) -> None:
    page = b'{"files": []}'
    server.serve("/simple/x/", Reply(body=page, headers={"Content-Type": "application/vnd.pypi.simple.v1+json"}))
    with fetcher(MemoryStore(), f"{server.url}/simple") as fetch, pytest.raises(UpstreamGone) as caught:
        fetch.fetch(wheel("x-1-py3-none-any.whl"))
    assert "lists no file x-1-py3-none-any.whl" in caught.value.detail[0]


def test_a_page_that_is_no_index_is_told(server: FaultServer) -> None:
    server.serve("/simple/x/", Reply(body=b"hello", headers={"Content-Type": "text/plain"}))
    with fetcher(MemoryStore(), f"{server.url}/simple") as fetch, pytest.raises(Unavailable) as caught:
        fetch.fetch(wheel("x-1-py3-none-any.whl"))
    assert "no project page" in caught.value.detail[0]


def test_many_are_fetched_at_once_and_all_failures_told_together(server: FaultServer) -> None:
    store = MemoryStore()
    bodies = {f"p{index}": f"{index}".encode() * 100 for index in range(20)}
    for name, body in bodies.items():
        if name not in ("p3", "p7"):
            server.serve("/" + PATH.replace("hello", name), Reply(body=body))
    with fetcher(store, server.url) as fetch, pytest.raises(UpstreamGone) as caught:
        fetch.fetch_all([deb(body, name=name) for name, body in bodies.items()])
    assert caught.value.message == "2 of 20 artifacts could not be fetched"
    assert sum(store.has_blob(sha256(body)) for body in bodies.values()) == 18


def test_many_are_fetched_each_from_places_of_its_own(server: FaultServer) -> None:
    store = MemoryStore()
    bodies = {f"p{index}": f"{index}".encode() * 100 for index in range(5)}
    urls = {name: server.serve(f"/{name}", Reply(body=body)) for name, body in bodies.items()}
    with fetcher(store) as fetch:
        fetch.fetch_all(
            [deb(body, name=name) for name, body in bodies.items()],
            places=lambda wanted: [Place(url=f"{server.url}/none"), Place(url=urls[wanted.name])],
        )
    assert all(store.has_blob(sha256(body)) for body in bodies.values())


def test_only_what_a_locator_gave_counts_as_served_by_it(server: FaultServer) -> None:
    store = MemoryStore()
    server.serve(f"/{PATH}", Reply(body=BODY))
    moved = replace(deb(), locator=DebPath(archive="debian", path=f"pool/updates/{PATH}"))
    with fetcher(store, server.url) as fetch:
        fetch.fetch(deb())
        fetch.fetch(moved)
        assert fetch.has_served(deb())
        assert not fetch.has_served(moved)
        with pytest.raises(UpstreamGone):
            fetch.fetch(moved, reuse=False)


def test_a_file_that_only_its_ecosystem_can_place_is_found_on_no_mirror(server: FaultServer) -> None:
    wanted = replace(deb(), locator=Named(text="library/x@sha256:1", file="x.tar"))
    with fetcher(MemoryStore(), server.url) as fetch, pytest.raises(Unavailable, match=r"x\.tar could not be fetched"):
        fetch.fetch(wanted)


def test_stopping_ends_transfers_that_are_under_way(server: FaultServer) -> None:
    server.serve(f"/{PATH}", Reply(body=BODY, drip=0.01))
    patient = Settings(read_s=5, slow_window_s=60)
    errors: list[DeriveError] = []
    with fetcher(MemoryStore(), server.url, settings=patient) as fetch:

        def run() -> None:
            try:
                fetch.fetch_all([deb()])
            except DeriveError as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.2)
        fetch.stop()
        thread.join(5)
    assert isinstance(errors[0], Interrupted)


def test_a_full_disk_is_told_and_nothing_is_kept(server: FaultServer) -> None:
    server.serve(f"/{PATH}", Reply(body=BODY))
    with fetcher(FullStore(), server.url) as fetch, pytest.raises(HostRefuses, match="no space left"):
        fetch.fetch(deb())


def test_a_plain_url_of_unknown_size_is_fetched(server: FaultServer) -> None:
    store = MemoryStore()
    url = server.serve("/upstream/x.tar.gz?download=1", Reply(body=BODY))
    wanted = Wanted(name="x", version="1", locator=PlainUrl(url=url), sha256=sha256(BODY), size=None)
    assert wanted.file == "x.tar.gz"
    with fetcher(store) as fetch:
        fetch.fetch(wanted)
    assert contents(store, sha256(BODY)) == BODY


def test_a_url_that_is_none_is_refused_at_once() -> None:
    wanted = Wanted(name="x", version="1", locator=PlainUrl(url="ftp://x/y"), sha256=sha256(b""), size=None)
    with fetcher(MemoryStore()) as fetch, pytest.raises(Unavailable, match="could not be fetched"):
        fetch.fetch(wanted)


def test_many_threads_fill_a_store_on_disk(server: FaultServer, tmp_path: Path) -> None:
    bodies = {f"p{index}": bytes([index]) * 200_000 for index in range(24)}
    for name, body in bodies.items():
        server.serve("/" + PATH.replace("hello", name), Reply(body=body, cut=150_000), Reply(body=body))
    mirrors = FixedMirrors(debian_archives=(Mirror(url=server.url),))
    with LocalStore(tmp_path) as store, Fetcher(store=store, mirrors=mirrors, settings=QUICK) as fetch:
        fetch.fetch_all([deb(body, name=name) for name, body in bodies.items()])
        for body in bodies.values():
            assert b"".join(store.read_blob(sha256(body))) == body


def wheel(file: str) -> Wanted:
    locator = WheelFile(project="x", file=file)
    return Wanted(name="x", version="1", locator=locator, sha256=sha256(BODY), size=len(BODY))


def closed_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


class FullWriter(MemoryWriter):
    """A blob writer on a full disk."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise OSError(28, "No space left on device")


class FullStore(MemoryStore):
    """A store on a full disk."""

    def blob_writer(self) -> MemoryWriter:
        return FullWriter(self._blobs)
