# SPDX-License-Identifier: Apache-2.0
"""The server of one image: what it gives and to whom, and that it gives nothing else."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.deploy.image_facts import need as needed
from derive.deploy.image_facts import parts
from derive.deploy.serve import Serving, items_of, serving
from derive.deploy.stored_image import stored_image
from derive.errors import Missing
from derive.images.oci import MANIFEST_TYPE
from derive.store.local import LocalStore
from support.handmade import documents, layer_tar, stored

LAYERS = [layer_tar(1, 300_000), layer_tar(2, 200_000)]
MANIFEST, CONFIG, BLOBS = documents(LAYERS)
BASE = "/v2/derive/tiny"
(BIG, DATA) = max(BLOBS.items(), key=lambda item: len(item[1]))
BLOB = f"{BASE}/blobs/{BIG}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    with LocalStore(tmp_path_factory.mktemp("store")) as opened:
        stored(opened, LAYERS)
        stored(opened, [layer_tar(3, 10)])
        yield opened


@pytest.fixture
def server(store: LocalStore) -> Iterator[Serving]:
    image = stored_image(store, sha256(MANIFEST))
    with serving(items_of(store, image, "derive/tiny", parts(image, needed(image, "x", ()), 1))) as running:
        yield running


def ask(
    server: Serving, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers=headers or {})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer, data


def test_manifest_config_and_layers_are_given_as_the_store_has_them(server: Serving) -> None:
    answer, data = ask(server, f"{BASE}/manifests/{sha256(MANIFEST)}")
    assert (answer.status, data) == (200, MANIFEST)
    assert answer.headers["Content-Type"] == MANIFEST_TYPE
    assert answer.headers["Docker-Content-Digest"] == str(sha256(MANIFEST))
    for digest, expected in {**BLOBS, sha256(CONFIG): CONFIG}.items():
        answer, data = ask(server, f"{BASE}/blobs/{digest}")
        assert (answer.status, data) == (200, expected)
        assert answer.headers["Content-Type"] == "application/octet-stream"


def test_head_says_what_get_would(server: Serving) -> None:
    answer, data = ask(server, BLOB, "HEAD")
    assert (answer.status, answer.headers["Content-Length"], data) == (200, str(len(DATA)), b"")
    assert server.given.sent_bytes == 0


def test_the_beginning_of_the_protocol_is_answered(server: Serving) -> None:
    answer, data = ask(server, "/v2/")
    assert (answer.status, data) == (200, b"{}")
    assert answer.headers["Docker-Distribution-API-Version"] == "registry/2.0"


def test_a_blob_is_given_from_any_byte_on(server: Serving) -> None:
    answer, data = ask(server, BLOB, headers={"Range": "bytes=1000-"})
    assert (answer.status, data) == (206, DATA[1000:])
    assert answer.headers["Content-Range"] == f"bytes 1000-{len(DATA) - 1}/{len(DATA)}"
    answer, data = ask(server, BLOB, headers={"Range": f"bytes={len(DATA)}-"})
    assert (answer.status, data, answer.headers["Content-Range"]) == (416, b"", f"bytes */{len(DATA)}")


def test_bytes_that_were_sent_are_counted_each_time(server: Serving) -> None:
    ask(server, BLOB)
    ask(server, BLOB, headers={"Range": "bytes=10-19"})
    ask(server, f"{BASE}/manifests/{sha256(MANIFEST)}")
    assert server.given.sent == {str(BIG): len(DATA) + 10}


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v2/_catalog",
        f"{BASE}/tags/list",
        f"{BASE}/manifests/latest",
        f"{BASE}/referrers/{sha256(MANIFEST)}",
        f"/v2/derive/other/blobs/{BIG}",
        f"{BASE}/manifests/{BIG}",
        f"{BASE}/blobs/{sha256(MANIFEST)}",
        f"{BASE}/blobs/../blobs/{BIG}",
        f"{BASE}/blobs/{BIG}?x=1",
    ],
)
def test_nothing_else_is_there(server: Serving, path: str) -> None:
    assert ask(server, path)[0].status == 404


def test_what_the_store_has_beside_the_image_is_not_there(server: Serving, store: LocalStore) -> None:
    manifest, config, blobs = documents([layer_tar(3, 10)])
    for digest in (*blobs, sha256(config), sha256(manifest)):
        assert store.has_blob(digest)
        assert ask(server, f"{BASE}/blobs/{digest}")[0].status == 404


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE", "OPTIONS", "CONNECT"])
def test_no_other_method_is_known(server: Serving, method: str) -> None:
    answer, _ = ask(server, BLOB, method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_a_smaller_image_of_the_lower_layers_is_given_where_one_is_wanted(server: Serving, store: LocalStore) -> None:
    image = stored_image(store, sha256(MANIFEST))
    (part,) = parts(image, needed(image, "x", ()), 1)
    assert ask(server, f"{BASE}/manifests/{part.digest}")[1] == part.manifest
    assert ask(server, f"{BASE}/blobs/{part.config_digest}")[1] == part.config


def test_a_greeting_of_tls_is_answered_in_plain_words_so_that_an_engine_goes_on_without(server: Serving) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00" + bytes(512))
        assert connection.makefile("rb").readline() == b"HTTP/1.1 400 Bad Request\r\n"


def test_it_listens_on_loopback_alone(server: Serving) -> None:
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    assert [one for one in listening if one.endswith(f":{server.port:04X}")][:1] == [f"0100007F:{server.port:04X}"]


def test_more_connections_than_it_has_places_wait_for_one(store: LocalStore) -> None:
    image = stored_image(store, sha256(MANIFEST))
    with serving(items_of(store, image, "derive/tiny"), connections=2) as server:
        answers: list[int] = []
        threads = [threading.Thread(target=lambda: answers.append(ask(server, BLOB)[0].status)) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [200] * 12
        assert server.given.most_connections <= 2


def test_at_the_end_nobody_is_answered_any_more_and_open_connections_are_closed(store: LocalStore) -> None:
    image = stored_image(store, sha256(MANIFEST))
    with serving(items_of(store, image, "derive/tiny"), connections=1) as server:
        idle = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        idle.sendall(b"GET /v2/ HTTP/1.1\r\n\r\n")
        assert idle.recv(4) == b"HTTP"
    with idle:
        while idle.recv(4096):
            pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=10)


def test_an_image_of_which_something_is_gone_is_not_served(tmp_path: Path) -> None:
    with LocalStore(tmp_path) as store:
        image = stored(store, LAYERS)
        store.blob_path(BIG).unlink()
        with pytest.raises(Missing, match=f"the store does not hold image {image}"):
            stored_image(store, image)
