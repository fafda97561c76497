# SPDX-License-Identifier: Apache-2.0
"""One artifact into a store on disk, from a server that does all that servers do wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import HostRefuses
from derive.net.failures import Broken, Failure, Gone, Misfit, Refused, Skipped, Wrong
from derive.net.http import Client, Settings
from derive.net.places import Named, Place, Wanted
from derive.net.progress import Quiet
from derive.net.transfer import Transfer
from derive.store.local import LocalStore
from support.servers import FaultServer, Reply

BODY = bytes(range(256)) * 4096
OTHER = bytes(len(BODY))
AGAIN = 1 << 16
QUICK = Settings(
    connect_s=1, read_s=0.3, attempts=3, first_delay_s=0.01, longest_delay_s=0.02, slowest=1000, slow_window_s=0.3
)


class Setting:
    """A store, a client, and a server beside them."""

    def __init__(self, root: Path, server: FaultServer) -> None:
        self.store = LocalStore(root)
        self.server = server
        self.renew()

    def renew(self) -> None:
        """Begin another run: hosts that were dead are asked again."""
        self.client = Client(settings=QUICK, progress=Quiet())
        self.transfer = Transfer(store=self.store, client=self.client, progress=Quiet())

    def fetch(self, *replies: Reply, size: int | None = len(BODY), path: str = "/x") -> None:
        place = Place(url=self.server.serve(path, *replies))
        self.transfer.from_url(wanted(size=size), place, reuse=False)

    def ranges(self) -> list[str | None]:
        return [request.headers.get("range") for request in self.server.requests]

    @property
    def partial(self) -> bytes | None:
        """What lies there unfinished."""
        path = self.store.root / "partial" / sha256(BODY).hex
        return path.read_bytes() if path.exists() else None

    def check_whole(self) -> None:
        """The right bytes are there, and nothing but them."""
        assert b"".join(self.store.read_blob(sha256(BODY))) == BODY
        self.check_kept(sha256(BODY))
        assert self.partial is None

    def check_kept(self, *digests: Digest) -> None:
        """Of all blobs, just these are there."""
        assert {path.name for path in (self.store.root / "blobs/sha256").iterdir()} == {d.hex for d in digests}


def wanted(*, size: int | None = len(BODY)) -> Wanted:
    return Wanted(name="x", version="1", locator=Named(text="x", file="x.bin"), sha256=sha256(BODY), size=size)


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Setting]:
    with FaultServer() as server:
        setting = Setting(tmp_path / "store", server)
        with setting.store:
            yield setting
        setting.client.close()


FAULTS_THAT_PASS = {
    "cut": Reply(body=BODY, cut=300_000),
    "cut-at-the-first-byte": Reply(body=BODY, cut=0),
    "cut-in-a-chunk": Reply(body=BODY, cut=300_000, chunked=True),
    "short-without-a-length": Reply(body=BODY[:300_000], length=False),
    "another-range": Reply(body=BODY, shifted=3, cut=300_000),
    "500": Reply(status=500),
    "502": Reply(status=502, body=b"<html>bad gateway</html>"),
    "503-asks-to-wait": Reply(status=503, headers={"Retry-After": "0"}),
    "hang": Reply(hang=True),
    "drip": Reply(body=BODY, drip=0.02),
}


@pytest.mark.parametrize("fault", FAULTS_THAT_PASS.values(), ids=FAULTS_THAT_PASS)
@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no-ranges"])
def test_a_fault_that_passes_costs_a_retry_and_nothing_else(at: Setting, fault: Reply, ranges: bool) -> None:
    at.fetch(fault, Reply(body=BODY, ranges=ranges))
    at.check_whole()
    assert len(at.server.requests) <= 3


FAULTS_THAT_STAY = {
    "truncated": (Reply(body=BODY, cut=1000, ranges=False), Broken, "broke off"),
    "short": (Reply(body=BODY[:5000], length=False, ranges=False), Broken, "ends after 5000 of"),
    "says-more": (Reply(body=BODY, stated=len(BODY) + 1), Wrong, "of another size"),
    "says-less": (Reply(body=BODY, stated=len(BODY) - 1), Wrong, "of another size"),
    "says-a-number-without-end": (
        Reply(body=BODY[:300_000], headers={"Content-Length": "9" * 5000}, ranges=False),
        Broken,
        "no answer",
    ),
    "says-right-sends-less": (Reply(body=BODY[:-1], stated=len(BODY), ranges=False), Broken, "broke off"),
    "wrong-bytes": (Reply(body=OTHER), Wrong, "other bytes"),
    "longer": (Reply(body=BODY + b"!", length=False), Wrong, "longer"),
    "longer-in-chunks": (Reply(body=BODY + b"!", chunked=True), Wrong, "longer"),
    "500": (Reply(status=500), Broken, "500"),
    "to-itself": (Reply(status=302, headers={"Location": "/x"}), Refused, "circle"),
    "to-nowhere": (Reply(status=302, headers={"Location": "ftp://h/x"}), Refused, "not usable"),
    "a-page": (Reply(body=b"<html>log in</html>"), Wrong, "of another size"),
    "nothing": (Reply(body=b""), Wrong, "of another size"),
    "unauthorised": (Reply(status=401), Refused, "401"),
    "no-content": (Reply(status=204), Refused, "204"),
    "hang": (Reply(hang=True), Broken, "no answer"),
}


@pytest.mark.parametrize(("fault", "kind", "words"), FAULTS_THAT_STAY.values(), ids=FAULTS_THAT_STAY)
def test_a_fault_that_stays_ends_soon_and_keeps_no_wrong_bytes(
    at: Setting, fault: Reply, kind: type[Failure], words: str
) -> None:
    started = time.monotonic()
    with pytest.raises(kind) as caught:
        at.fetch(fault)
    assert words in caught.value.reason
    assert time.monotonic() - started < 5
    assert len(at.server.requests) <= 31, "thirty redirects are the most that any of these takes"
    at.check_kept()
    assert at.partial is None or BODY.startswith(at.partial)
    at.renew()
    at.fetch(Reply(body=BODY))
    at.check_whole()


def test_what_came_in_one_run_is_gone_on_with_in_the_next(at: Setting) -> None:
    with pytest.raises(Broken):
        at.fetch(Reply(body=BODY, cut=500_000), Reply(status=500))
    at.server.requests.clear()
    at.renew()
    at.fetch(Reply(body=BODY))
    assert at.ranges() == [f"bytes={500_000 - AGAIN}-"]
    at.check_whole()


def test_what_one_mirror_began_another_finishes(at: Setting) -> None:
    with pytest.raises(Failure):
        at.fetch(Reply(body=BODY, cut=500_000), Reply(status=404))
    at.fetch(Reply(body=BODY), path="/other")
    assert at.ranges()[-1] == f"bytes={500_000 - AGAIN}-"
    at.check_whole()


def test_pieces_that_do_not_belong_together_are_fetched_once_more_whole(at: Setting) -> None:
    with pytest.raises(Failure):
        at.fetch(Reply(body=OTHER, cut=500_000), Reply(status=404))
    at.fetch(Reply(body=BODY), path="/other")
    assert at.ranges()[-2:] == [f"bytes={500_000 - AGAIN}-", None]
    at.check_whole()


def test_a_wrong_file_costs_nothing_of_what_came_before(at: Setting) -> None:
    with pytest.raises(Failure):
        at.fetch(Reply(body=BODY, cut=500_000), Reply(status=404))
    with pytest.raises(Wrong):
        at.fetch(Reply(body=BODY + b"!"), path="/longer")
    with pytest.raises(Wrong):
        at.fetch(Reply(body=bytes(len(BODY) + 1), length=False, ranges=False), path="/streamed")
    assert at.partial == BODY[: 500_000 - AGAIN]
    with pytest.raises(Gone):
        at.fetch(Reply(status=404), path="/gone")
    assert at.partial == BODY[: 500_000 - AGAIN]


@pytest.mark.parametrize("size", [len(BODY), None], ids=["size-known", "size-unknown"])
@pytest.mark.parametrize("came", [200_000, len(BODY)], ids=["part", "all"])
def test_whoever_sends_the_rest_is_seen_to_have_the_file(at: Setting, size: int | None, came: int) -> None:
    path = at.store.root / "partial" / sha256(BODY).hex
    path.parent.mkdir()
    path.write_bytes(BODY[:came])
    with pytest.raises(Gone):
        at.fetch(Reply(status=404), size=size)
    at.fetch(Reply(body=BODY), size=size, path="/other")
    at.check_whole()


def test_a_server_whose_file_is_shorter_than_what_came_is_asked_for_all_of_it(at: Setting) -> None:
    path = at.store.root / "partial" / sha256(BODY).hex
    path.parent.mkdir()
    path.write_bytes(BODY + bytes(AGAIN * 2))
    at.fetch(Reply(body=BODY), size=None)
    assert at.ranges() == [f"bytes={len(BODY) + AGAIN}-", None]
    at.check_whole()


def test_a_server_that_always_answers_another_range_is_asked_for_all_of_it(at: Setting) -> None:
    path = at.store.root / "partial" / sha256(BODY).hex
    path.parent.mkdir()
    path.write_bytes(BODY[:500_000])
    at.fetch(Reply(body=BODY, shifted=7))
    assert at.ranges() == [f"bytes={500_000 - AGAIN}-", None]
    at.check_whole()


def test_a_server_that_only_answers_other_ranges_is_given_up(at: Setting) -> None:
    with pytest.raises(Misfit, match="another range"):
        at.fetch(Reply(body=BODY, shifted=7, cut=300_000))
    at.check_kept()


def test_bytes_that_trickle_in_are_progress(at: Setting) -> None:
    at.fetch(*(Reply(body=BODY, cut=300_000) for _ in range(3)), Reply(body=BODY))
    at.check_whole()
    assert len(at.server.requests) == 4


def test_a_host_that_failed_thrice_in_a_row_is_left_alone(at: Setting) -> None:
    for index in range(3):
        with pytest.raises(Broken):
            at.fetch(Reply(status=503), path=f"/{index}")
    with pytest.raises(Skipped, match="503 Service Unavailable"):
        at.fetch(Reply(body=BODY), path="/3")
    assert len(at.server.requests) == 3 * QUICK.attempts


def test_one_success_among_failures_keeps_a_host_in_use(at: Setting) -> None:
    for index in range(4):
        with pytest.raises(Broken):
            at.fetch(Reply(status=503), path=f"/{index}")
        if index == 1:
            at.fetch(Reply(body=BODY), path="/good")
    assert len(at.server.requests) == 4 * QUICK.attempts + 1


def test_a_host_that_asks_for_a_long_pause_is_not_waited_for(at: Setting) -> None:
    with pytest.raises(Broken, match="503"):
        at.fetch(Reply(status=503, headers={"Retry-After": "3600"}))
    assert len(at.server.requests) == 1


def test_an_authorization_is_asked_for_each_attempt_and_renewed_once(at: Setting) -> None:
    asked: list[int | None] = []

    def authorise(failure: Failure | None) -> str | None:
        asked.append(failure.status if failure else None)
        return f"Bearer {len(asked)}"

    url = at.server.serve("/x", Reply(status=401), Reply(body=BODY, cut=300_000), Reply(body=BODY))
    at.transfer.from_url(wanted(), Place(url=url, authorise=authorise), reuse=False)
    assert asked == [None, 401, None]
    assert [r.headers.get("authorization") for r in at.server.requests] == ["Bearer 1", "Bearer 2", "Bearer 3"]
    at.check_whole()


@pytest.mark.parametrize("renewed", [None, "Bearer again"])
def test_an_authorization_that_does_not_help_is_refused(at: Setting, renewed: str | None) -> None:
    url = at.server.serve("/x", Reply(status=401))
    place = Place(url=url, authorise=lambda failure: renewed if failure else "Bearer old")
    with pytest.raises(Refused, match="401"):
        at.transfer.from_url(wanted(), place, reuse=False)
    assert len(at.server.requests) == (2 if renewed else 1)


def test_a_file_of_this_machine_is_copied_and_checked(at: Setting, tmp_path: Path) -> None:
    source = tmp_path / "file"
    source.write_bytes(BODY)
    at.transfer.from_file(wanted(size=None), str(source), reuse=False)
    at.check_whole()


def test_what_a_server_began_a_file_finishes(at: Setting, tmp_path: Path) -> None:
    with pytest.raises(Failure):
        at.fetch(Reply(body=OTHER, cut=500_000), Reply(status=404))
    source = tmp_path / "file"
    source.write_bytes(BODY)
    at.transfer.from_file(wanted(), str(source), reuse=False)
    at.check_whole()


def test_a_file_that_is_none_or_another_is_told(at: Setting, tmp_path: Path) -> None:
    source = tmp_path / "file"
    with pytest.raises(Gone):
        at.transfer.from_file(wanted(), str(source), reuse=False)
    os.mkfifo(source)
    with pytest.raises(Refused, match="something else"):
        at.transfer.from_file(wanted(), str(source), reuse=False)
    source.unlink()
    source.mkdir()
    with pytest.raises(Refused, match="something else"):
        at.transfer.from_file(wanted(), str(source), reuse=False)
    source.rmdir()
    for data, words in ((OTHER, "other bytes"), (BODY[:-1], "another size"), (BODY + b"!", "another size")):
        source.write_bytes(data)
        with pytest.raises(Wrong, match=words):
            at.transfer.from_file(wanted(), str(source), reuse=False)
    at.check_kept()
    assert at.partial is None


def test_a_store_that_cannot_be_written_is_told(at: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "ftruncate", refuse)
    with pytest.raises(HostRefuses, match="cannot be written"):
        at.fetch(Reply(body=BODY))
