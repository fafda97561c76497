# SPDX-License-Identifier: Apache-2.0
"""What the client says of failures below HTTP."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from derive.errors import Interrupted
from derive.net.answers import broken_by
from derive.net.failures import Broken, Distrusted, Gone, Refused, Skipped, TimedOut
from derive.net.http import Body, Client, Settings
from derive.net.progress import Quiet
from support.servers import FaultServer, Reply
from support.spec_registry import spec_registry


def client(**settings: float) -> Client:
    bounds = {"first_delay_s": 0.01, "longest_delay_s": 0.01, **settings}
    return Client(settings=Settings(**bounds), progress=Quiet())  # type: ignore[arg-type]


def wrapped(cause: BaseException) -> requests.exceptions.ConnectionError:
    error = requests.exceptions.ConnectionError("a long text with an address in it")
    error.__cause__ = RuntimeError("between")
    error.__cause__.__context__ = cause
    return error


def test_an_unknown_host_name_is_told_in_words() -> None:
    failure = broken_by(wrapped(socket.gaierror(-2, "Name or service not known")), connect_s=15, read_s=60)
    assert isinstance(failure, Broken)
    assert failure.silent
    assert failure.reason == "the host name is not known"


def test_the_innermost_reason_is_told() -> None:
    assert broken_by(wrapped(ConnectionRefusedError(111, "Connection refused")), connect_s=15, read_s=60).reason == (
        "connection refused"
    )


def test_distrust_is_not_tried_again() -> None:
    assert isinstance(broken_by(requests.exceptions.SSLError("self-signed"), connect_s=15, read_s=60), Refused)


def test_an_unusable_url_is_refused_without_its_credentials() -> None:
    failure = broken_by(requests.exceptions.InvalidURL("Failed to parse: http://me:secret@:x"), connect_s=15, read_s=60)
    assert isinstance(failure, Refused)
    assert "secret" not in failure.reason


def test_a_small_answer_is_decoded_and_its_final_url_told() -> None:
    import gzip

    with FaultServer() as server:
        body = gzip.compress(b"hello " * 100_000, mtime=0)
        server.serve("/end", Reply(body=body, headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"}))
        start = server.serve("/start", Reply(status=302, headers={"Location": "/end"}))
        asking = client()
        answer = asking.get(start)
        asking.close()
    assert answer.body == b"hello " * 100_000
    assert answer.url == f"{server.url}/end"
    assert answer.content_type == "text/plain"


def test_a_span_of_a_host_that_serves_none_is_refused() -> None:
    with FaultServer() as server:
        url = server.serve("/x", Reply(body=b"0123456789", ranges=False))
        ranged = server.serve("/y", Reply(body=b"0123456789"))
        asking = client()
        assert asking.get(ranged, span="bytes=2-4").body == b"234"
        with pytest.raises(Refused):
            asking.get(url, span="bytes=2-4")
        asking.close()


@pytest.fixture
def netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A netrc file that has a password for the loopback address."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


@pytest.mark.usefixtures("netrc")
def test_an_authorization_wins_over_netrc_and_without_one_netrc_counts() -> None:
    with FaultServer() as server:
        url = server.serve("/x", Reply(body=b"x"))
        asking = client()
        asking.get(url, authorization="Bearer token")
        asking.get(url.replace("http://", "http://you:other@"), authorization="Bearer token")
        asking.get(url)
        asking.close()
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent[:2] == ["Bearer token", "Bearer token"]
    assert sent[2].startswith("Basic ")


def test_an_authorization_stays_with_its_origin_through_redirects() -> None:
    with FaultServer() as server, FaultServer() as other:
        other.serve("/end", Reply(body=b"end"))
        server.serve("/middle", Reply(status=307, headers={"Location": f"{other.url}/end"}))
        url = server.serve("/start", Reply(status=302, headers={"Location": "/middle"}))
        asking = client()
        assert asking.get(url, authorization="Bearer token").body == b"end"
        with asking.stream(url, offset=0, proxy=None, authorization="Bearer token") as (_, pieces):
            assert b"".join(pieces) == b"end"
        asking.close()
    assert [request.headers.get("authorization") for request in server.requests] == ["Bearer token"] * 4
    assert [request.headers.get("authorization") for request in other.requests] == [None, None]


def test_status_and_headers_of_a_refusal_are_told() -> None:
    with FaultServer() as server:
        asking = client()
        url = server.serve("/x", Reply(status=401, headers={"WWW-Authenticate": 'Bearer realm="r"'}))
        with pytest.raises(Refused) as refused:
            asking.get(url)
        with pytest.raises(Gone) as gone:
            asking.get(f"{server.url}/gone")
        answer = asking.get(server.serve("/y", Reply(body=b"y", headers={"Docker-Content-Digest": "d"})))
        asking.close()
    assert refused.value.status == 401
    assert refused.value.headers["www-authenticate"] == 'Bearer realm="r"'
    assert gone.value.status == 404
    assert answer.headers["docker-content-digest"] == "d"


@pytest.mark.parametrize("length", [True, False])
def test_an_answer_larger_than_is_held_in_memory_is_refused(length: bool) -> None:
    with FaultServer() as server:
        url = server.serve("/x", Reply(body=bytes(1001), length=length))
        asking = client()
        assert len(asking.get(url, limit=1001).body) == 1001
        with pytest.raises(Refused, match="more than 1000 bytes"):
            asking.get(url, limit=1000)
        asking.close()


def test_a_small_answer_that_expands_without_end_is_refused() -> None:
    import gzip

    with FaultServer() as server:
        body = gzip.compress(bytes(50_000_000), mtime=0)
        url = server.serve("/x", Reply(body=body, headers={"Content-Encoding": "gzip"}))
        asking = client()
        with pytest.raises(Refused, match="more than 1000000 bytes"):
            asking.get(url, limit=1_000_000)
        asking.close()


def test_a_host_without_trusted_tls_is_said_once_and_skipped() -> None:
    said: list[str] = []

    class Notes(Quiet):
        def note(self, message: str) -> None:
            said.append(message)

    with FaultServer() as server:
        asking = Client(settings=Settings(first_delay_s=0.01), progress=Notes())
        url = server.url.replace("http:", "https:")
        with pytest.raises(Distrusted):
            asking.get(f"{url}/x")
        with pytest.raises(Skipped):
            asking.get(f"{url}/y")
        asking.close()
    assert len(said) == 1
    assert said[0].startswith(f"{url} is not trusted (")


def test_redirects_in_a_circle_are_refused_without_another_try() -> None:
    with FaultServer() as server:
        server.serve("/b", Reply(status=302, headers={"Location": "/a"}))
        url = server.serve("/a", Reply(status=302, headers={"Location": "/b"}))
        asking = client()
        with pytest.raises(Refused, match="circle"):
            asking.get(url)
        asking.close()
    assert len(server.requests) == 31


@pytest.mark.parametrize("location", ["http://[::1", "http://h:port/", "\xff\xfe", "gopher://h/"])
def test_a_redirect_to_what_is_no_url_is_refused(location: str) -> None:
    with FaultServer() as server:
        url = server.serve("/x", Reply(status=302, headers={"Location": location}))
        asking = client()
        with pytest.raises(Refused):
            asking.get(url)
        asking.close()
    assert len(server.requests) == 1


def test_what_is_no_url_is_refused() -> None:
    asking = client()
    for url in ("http://[::1", "http://h:port/x", "/x", ""):
        with pytest.raises(Refused):
            asking.get(url)
    asking.close()


def body(size: int) -> Body:
    return Body(size=size, read=lambda: iter([b"x" * size]))


def test_a_call_gives_back_any_answer_and_follows_no_redirect() -> None:
    with FaultServer() as server:
        asking = client()
        gone = asking.call("GET", server.serve("/gone", Reply(status=404, body=b"why", headers={"X-Y": "z"})))
        assert (gone.status, gone.body, gone.headers["x-y"], gone.reason) == (404, b"why", "z", "Not Found")
        with pytest.raises(Refused, match="more than 2 bytes"):
            asking.call("GET", f"{server.url}/gone", limit=2)
        with spec_registry() as registry:
            url = f"{registry.url}/v2/a/blobs/uploads/"
            begun = asking.call("POST", url)
            headers = {"Content-Range": "0-99999"}
            sent = asking.call("PATCH", registry.url + begun.headers["location"], headers=headers, body=body(100_000))
            assert (sent.status, sent.headers["range"], registry.pieces) == (202, "0-99999", [100_000])
        asking.close()


def test_a_host_that_takes_nothing_of_a_body_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = Settings(connect_s=0.2, read_s=0.2)
        asking = Client(settings=settings, progress=Quiet())
        with pytest.raises(Broken, match="nothing moved for too long"):
            asking.call("PUT", f"http://127.0.0.1:{silent.getsockname()[1]}/x", body=body(50_000_000))
        asking.close()


@pytest.mark.parametrize(("silence_ends", "asked"), [(True, 1), (False, 2)])
def test_a_host_that_says_nothing_in_time_is_asked_again_unless_that_ends_it(silence_ends: bool, asked: int) -> None:
    with FaultServer() as server:
        url = server.serve("/x", Reply(hang=True))
        asking = client(read_s=0.2, attempts=2, silence_ends=silence_ends)
        with pytest.raises(TimedOut, match=r"no answer in 0\.2 s"):
            asking.get(url)
        asking.close()
        assert len(server.requests) == asked


def test_a_connection_that_breaks_is_tried_again_also_where_silence_ends_it() -> None:
    with FaultServer() as server:
        url = server.serve("/x", Reply(body=b"abc", cut=0), Reply(body=b"abc"))
        asking = client(attempts=2, silence_ends=True)
        assert asking.get(url).body == b"abc"
        asking.close()


def test_a_body_is_no_longer_sent_once_the_client_is_stopped() -> None:
    with spec_registry() as registry:
        asking = Client(settings=Settings(), progress=Quiet())

        def pieces() -> Iterator[bytes]:
            yield b"x"
            asking.stop()
            yield b"x"

        with pytest.raises(Interrupted):
            asking.call("PUT", f"{registry.url}/v2/a/manifests/b", body=Body(size=2, read=pieces))
        asking.close()
