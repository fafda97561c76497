# SPDX-License-Identifier: Apache-2.0
"""What the client says of failures below HTTP."""

from __future__ import annotations

import socket

import pytest
import requests

from derive.net.failures import Broken, Refused
from derive.net.http import Client, Settings, _failure
from derive.net.progress import Quiet
from support.servers import FaultServer, Reply


def client(**settings: float) -> Client:
    bounds = {"first_delay_s": 0.01, "longest_delay_s": 0.01, **settings}
    return Client(settings=Settings(**bounds), progress=Quiet())  # type: ignore[arg-type]


def wrapped(cause: BaseException) -> requests.exceptions.ConnectionError:
    error = requests.exceptions.ConnectionError("a long text with an address in it")
    error.__cause__ = RuntimeError("between")
    error.__cause__.__context__ = cause
    return error


def test_an_unknown_host_name_is_told_in_words() -> None:
    failure = _failure(wrapped(socket.gaierror(-2, "Name or service not known")), Settings())
    assert isinstance(failure, Broken)
    assert failure.silent
    assert failure.reason == "the host name is not known"


def test_the_innermost_reason_is_told() -> None:
    assert _failure(wrapped(ConnectionRefusedError(111, "Connection refused")), Settings()).reason == (
        "connection refused"
    )


def test_distrust_is_not_tried_again() -> None:
    assert isinstance(_failure(requests.exceptions.SSLError("self-signed"), Settings()), Refused)


def test_an_unusable_url_is_refused_without_its_credentials() -> None:
    failure = _failure(requests.exceptions.InvalidURL("Failed to parse: http://me:secret@:x"), Settings())
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
