# SPDX-License-Identifier: Apache-2.0
"""Pushing an image: into a real registry, through a proxy that breaks things, and into one that lists referrers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, Missing, Unavailable
from derive.images.oci import INDEX_TYPE
from derive.images.referrers import referrers_of
from derive.oci import upload as uploads
from derive.oci.pull import PULLED
from derive.oci.push import plan_push
from derive.store.local import LocalStore
from support.faults import FaultProxy
from support.oci_registry import PASSWORD, USER, Registry, registry
from support.pushing import Told, keep, pull_from, push_to, remote_of, some_image, store_with
from support.spec_registry import spec_registry

IMAGE = some_image(700_000, 20_000)
DIGEST = Digest.parse(IMAGE.digest)
LAYER, SMALL = (Digest.parse(digest) for digest in list(IMAGE.blobs)[1:])
SIZE = sum(map(len, IMAGE.blobs.values()))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def proxy(real: Registry) -> Iterator[FaultProxy]:
    with FaultProxy(real.host) as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with store_with(tmp_path / "store", IMAGE) as store:
        yield store


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a piece small, so that the larger layer takes three."""
    monkeypatch.setattr(uploads, "CHUNK", 256 << 10)
    monkeypatch.setattr(uploads.upload, "__kwdefaults__", {"source": "", "chunk": 256 << 10})


def served(real: Registry, repository: str, digest: str) -> bytes:
    answer = requests.get(f"{real.url}/v2/{repository}/blobs/{digest}", timeout=5)
    answer.raise_for_status()
    return answer.content


# What moves


def test_a_push_and_a_pull_into_an_empty_store_move_every_byte_as_it_is(
    proxy: FaultProxy, store: LocalStore, tmp_path: Path
) -> None:
    done = push_to(proxy.url, "a/whole", store, DIGEST, "1", full=True)
    assert (done.count("uploaded"), done.size("uploaded"), done.before) == (3, SIZE, None)
    with LocalStore(tmp_path / "other") as other:
        pulled = pull_from(proxy.url, "a/whole:1", other)
        assert pulled.image.manifest.digest == DIGEST
        for digest, data in {**IMAGE.blobs, IMAGE.digest: IMAGE.manifest}.items():
            assert b"".join(other.read_blob(Digest.parse(digest))) == data


def test_what_is_there_is_not_sent_again(proxy: FaultProxy, store: LocalStore) -> None:
    push_to(proxy.url, "a/again", store, DIGEST)
    proxy.forget()
    done = push_to(proxy.url, "a/again", store, DIGEST, "new")
    assert done.plan.missing == ()
    assert (proxy.count("POST"), proxy.sent("blobs")) == (0, 0)


def test_an_image_that_shares_a_layer_sends_only_the_others(proxy: FaultProxy, store: LocalStore) -> None:
    push_to(proxy.url, "a/shared", store, DIGEST)
    other = some_image(700_000, 30_000)
    digest = keep(store, other)
    proxy.forget()
    done = push_to(proxy.url, "a/shared", store, digest)
    assert LAYER not in done.moved
    assert proxy.sent("PUT .*uploads") == done.plan.missing_bytes < 40_000


def test_a_blob_of_another_repository_is_mounted_where_that_is_named(proxy: FaultProxy, store: LocalStore) -> None:
    push_to(proxy.url, "a/source", store, DIGEST)
    proxy.forget()
    done = push_to(proxy.url, "a/target", store, DIGEST, source="a/source")
    assert done.count("mounted") == 3
    assert proxy.sent("uploads") == 0
    assert push_to(proxy.url, "a/other", store, DIGEST, source="a/nothing").count("uploaded") == 3


def test_a_plan_asks_and_moves_nothing(proxy: FaultProxy, store: LocalStore) -> None:
    plan = plan_push(store, remote_of(proxy.url, "a/plan"), DIGEST)
    assert [action for action, _ in plan.lines()] == ["upload"] * 3
    assert (plan.missing_bytes, plan.there_bytes) == (SIZE, 0)
    assert {one.method for one in proxy.seen} == {"HEAD"}


def test_a_tag_that_named_another_image_is_told(proxy: FaultProxy, store: LocalStore) -> None:
    push_to(proxy.url, "a/tag", store, DIGEST, "1")
    other = keep(store, some_image(10))
    assert push_to(proxy.url, "a/tag", store, other, "1").before == DIGEST


def test_an_image_of_which_a_blob_is_gone_is_not_begun(proxy: FaultProxy, store: LocalStore) -> None:
    store.blob_path(SMALL).unlink()
    with pytest.raises(Missing, match=SMALL.short):
        push_to(proxy.url, "a/gone", store, DIGEST)
    assert proxy.seen == []


@pytest.mark.parametrize("gone", ["manifest", "envelope"])
def test_an_image_of_which_an_attestation_is_lost_is_not_pushed_without_it_unasked(
    proxy: FaultProxy, tmp_path: Path, gone: str
) -> None:
    with store_with(tmp_path / "attested", IMAGE, attached=[b"one"]) as store:
        (manifest,) = referrers_of(store, DIGEST)
        lost = manifest if gone == "manifest" else sha256(b"one")
        store.blob_path(lost).unlink()
        with pytest.raises(Missing) as caught:
            push_to(proxy.url, "a/lost", store, DIGEST)
        assert str(lost) in caught.value.detail[0]
        assert caught.value.hint == "attest it again (derive attest), or push without any of it: --no-referrers"
        store.database.set_root(PULLED, "a/lost:1 linux/amd64", DIGEST)
        with pytest.raises(Missing) as caught:
            push_to(proxy.url, "a/lost", store, DIGEST)
        assert caught.value.hint == "pull it again (derive pull), or push without any of it: --no-referrers"
        assert proxy.seen == []
        assert push_to(proxy.url, "a/lost", store, DIGEST, referrers=False).plan.referrers == ()


def test_a_manifest_whose_bytes_are_damaged_is_said_to_be(proxy: FaultProxy, store: LocalStore) -> None:
    path = store.blob_path(DIGEST)
    path.chmod(0o600)
    path.write_bytes(IMAGE.manifest[:-1])
    with pytest.raises(Corrupt, match=f"the bytes of blob {DIGEST.short} no longer have its digest"):
        push_to(proxy.url, "a/damaged", store, DIGEST)


@pytest.mark.usefixtures("pieces")
def test_a_large_blob_goes_piece_by_piece(proxy: FaultProxy, store: LocalStore, real: Registry) -> None:
    told = Told()
    push_to(proxy.url, "a/pieces", store, DIGEST, told=told)
    assert [one.headers["content-range"] for one in proxy.seen if one.method == "PATCH"] == [
        "0-262143",
        "262144-524287",
        "524288-699999",
    ]
    assert told.moved == {Digest.parse(digest).short: len(data) for digest, data in IMAGE.blobs.items()}
    assert served(real, "a/pieces", str(LAYER)) == IMAGE.blobs[str(LAYER)]


# Faults on the way


@pytest.mark.usefixtures("pieces")
def test_an_upload_goes_on_where_a_connection_broke_before_the_registry_saw_the_piece(
    proxy: FaultProxy, store: LocalStore
) -> None:
    proxy.add("PATCH", "reset-unforwarded", 100_000, skip=1)
    push_to(proxy.url, "a/resumed", store, DIGEST)
    assert proxy.count("GET .*uploads") == 1
    assert proxy.sent("PATCH") == 700_000


@pytest.mark.usefixtures("pieces")
def test_a_registry_that_gives_up_a_broken_upload_gets_that_blob_anew_and_no_other(
    proxy: FaultProxy, store: LocalStore, real: Registry
) -> None:
    proxy.add("PATCH", "reset-request", 100_000)
    told = Told()
    push_to(proxy.url, "a/anew", store, DIGEST, told=told)
    assert proxy.sent("PATCH") == 700_000 + 100_000
    assert proxy.sent("PUT .*uploads") == SIZE - 700_000
    assert told.moved[LAYER.short] == 700_000
    assert served(real, "a/anew", str(LAYER)) == IMAGE.blobs[str(LAYER)]


@pytest.mark.usefixtures("pieces")
def test_an_upload_that_the_registry_forgot_begins_anew(proxy: FaultProxy, store: LocalStore) -> None:
    proxy.add("PATCH", "status", status=404, body=b'{"errors":[{"code":"BLOB_UPLOAD_UNKNOWN"}]}')
    push_to(proxy.url, "a/forgotten", store, DIGEST)
    assert proxy.count("POST") == 4


def test_a_blob_whose_last_answer_got_lost_is_not_sent_twice(proxy: FaultProxy, store: LocalStore) -> None:
    proxy.add("PUT .*uploads", "lose-answer")
    done = push_to(proxy.url, "a/answer", store, DIGEST)
    assert (done.count("there"), done.count("uploaded")) == (1, 2)
    assert proxy.sent("PUT .*uploads") == SIZE


@pytest.mark.parametrize("pattern", ["HEAD", "POST", "PUT .*uploads", "PUT .*manifests", "GET .*manifests"])
def test_a_push_survives_errors_of_the_registry(proxy: FaultProxy, store: LocalStore, pattern: str) -> None:
    proxy.add(pattern, "status", status=503)
    proxy.add(pattern, "status", status=429, headers={"Retry-After": "0"})
    proxy.add(pattern, "reset-unforwarded")
    push_to(proxy.url, f"a/{sha256(pattern.encode()).short}", store, DIGEST, "1")


def test_bytes_that_changed_on_the_way_are_refused_and_sent_again(
    proxy: FaultProxy, store: LocalStore, real: Registry
) -> None:
    proxy.add("PUT .*uploads", "flip-request", 1000)
    push_to(proxy.url, "a/flipped", store, DIGEST, full=True)
    assert {digest: served(real, "a/flipped", digest) for digest in IMAGE.blobs} == IMAGE.blobs


def test_a_damaged_blob_of_the_store_is_told_as_that(proxy: FaultProxy, store: LocalStore) -> None:
    path = store.blob_path(LAYER)
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(b"x" + data[1:])
    with pytest.raises(Corrupt, match="a blob of the store is damaged"):
        push_to(proxy.url, "a/damaged", store, DIGEST, "1")
    assert requests.get(f"{proxy.url}/v2/a/damaged/manifests/1", timeout=5).status_code == 404


def test_a_registry_that_takes_nothing_ends_the_push_in_bounded_time(proxy: FaultProxy, store: LocalStore) -> None:
    proxy.add("POST", "hang", times=99)
    with pytest.raises(Unavailable, match="could not be pushed") as caught:
        push_to(proxy.url, "a/hangs", store, DIGEST)
    assert "no answer in 0.6 s" in caught.value.detail[0]
    assert str(caught.value.hint).startswith("run it again")


def test_a_registry_that_is_down_is_told_with_its_place(store: LocalStore) -> None:
    with pytest.raises(Unavailable) as caught:
        push_to("http://127.0.0.1:9", "a/down", store, DIGEST)
    assert caught.value.detail == ("tried     http://127.0.0.1:9: connection refused",)


def test_a_refusal_says_what_the_registry_says(proxy: FaultProxy, store: LocalStore) -> None:
    said = b'{"errors":[{"code":"DENIED","message":"no more\\u001b room"}]}'
    proxy.add("POST", "status", status=403, times=9, body=said)
    with pytest.raises(Unavailable) as caught:
        push_to(proxy.url, "a/refused", store, DIGEST)
    said_there = "403 Forbidden (DENIED no more? room), asked to POST /v2/a/refused/blobs/uploads/"
    assert caught.value.detail[0].endswith(said_there)
    assert f"docker login {proxy.url.removeprefix('http://')}" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (405, "this registry takes no writes"),
        (403, "a registry that is read-only answers so, too"),
        (400, "the registry refuses this, and will again"),
        (404, "the registry refuses this, and will again"),
        (500, "does this registry take writes, and has it space?"),
    ],
)
def test_a_registry_that_takes_no_writes_is_said_to_with_what_it_was_asked(
    proxy: FaultProxy, store: LocalStore, status: int, says: str
) -> None:
    proxy.add("POST", "status", status=status, times=99)
    with pytest.raises(Unavailable) as caught:
        push_to(proxy.url, "a/readonly", store, DIGEST)
    assert caught.value.detail[0].endswith(", asked to POST /v2/a/readonly/blobs/uploads/")
    assert says in str(caught.value.hint)
    assert status == 500 or "run it again" not in str(caught.value.hint).lower()


# Reading back


@pytest.mark.parametrize(
    ("pattern", "kind", "full"), [("GET .*manifests", "flip", False), ("GET .*blobs/sha256", "flip", True)]
)
def test_what_reads_back_otherwise_fails_and_the_tag_does_not_move(
    proxy: FaultProxy, store: LocalStore, pattern: str, kind: str, *, full: bool
) -> None:
    proxy.add(pattern, "flip", 10, times=9)
    repository = f"a/back-{kind}-{full}".lower()
    with pytest.raises(Corrupt, match="does not hold what it took"):
        push_to(proxy.url, repository, store, DIGEST, "1", full=full)
    proxy.forget()
    assert requests.get(f"{proxy.url}/v2/{repository}/manifests/1", timeout=5).status_code == 404


def test_a_blob_of_another_size_fails_when_it_is_read_back(proxy: FaultProxy, store: LocalStore) -> None:
    proxy.add(f"HEAD .*{SMALL.hex}", "status", skip=1, status=200, headers={"Content-Length": "5"})
    with pytest.raises(Corrupt, match=SMALL.short) as caught:
        push_to(proxy.url, "a/size", store, DIGEST)
    assert caught.value.detail[1] == "got       5 bytes"


def test_reading_back_whole_goes_on_where_a_connection_broke(proxy: FaultProxy, store: LocalStore) -> None:
    proxy.add(f"GET .*{LAYER.hex}", "truncate", 400_000)
    push_to(proxy.url, "a/back", store, DIGEST, full=True)
    assert any("range" in one.headers for one in proxy.seen if one.method == "GET")


# Logins


def test_a_login_of_docker_opens_a_registry(tmp_path: Path, store: LocalStore) -> None:
    with registry(tmp_path / "basic", auth="basic") as closed:
        config = {"auths": {closed.host: {"username": USER, "password": PASSWORD}}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        done = push_to(closed.url, "a/login", store, DIGEST, environ={"DOCKER_CONFIG": str(tmp_path)})
        assert done.count("uploaded") == 3
        with pytest.raises(Unavailable, match="a/login"):
            push_to(closed.url, "a/login", store, DIGEST)


def test_a_token_is_asked_for_that_allows_both_to_pull_and_to_push(tmp_path: Path, store: LocalStore) -> None:
    with registry(tmp_path / "token", auth="token") as closed:
        config = {"auths": {closed.host: {"username": USER, "password": PASSWORD}}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        done = push_to(closed.url, "a/token", store, DIGEST, "1", environ={"DOCKER_CONFIG": str(tmp_path)})
        assert done.count("uploaded") == 3
        assert {scope for scope, _ in closed.tokens} == {"repository:a/token:pull,push"}


def test_a_token_that_runs_out_in_the_middle_is_renewed(tmp_path: Path, store: LocalStore) -> None:
    with registry(tmp_path / "token", auth="token") as closed, FaultProxy(closed.host) as proxy:
        challenge = requests.get(f"{closed.url}/v2/a/renewed/tags/list", timeout=5).headers["www-authenticate"]
        host = proxy.url.removeprefix("http://")
        config = {"auths": {host: {"username": USER, "password": PASSWORD}}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        proxy.add("PUT .*uploads", "status", status=401, headers={"WWW-Authenticate": challenge})
        told = Told()
        environ = {"DOCKER_CONFIG": str(tmp_path)}
        done = push_to(proxy.url, "a/renewed", store, DIGEST, "1", environ=environ, told=told)
        assert done.count("uploaded") == 3
        assert sum(told.moved.values()) == SIZE


# Referrers


def test_what_refers_to_an_image_goes_with_it_and_is_listed_under_a_tag(
    proxy: FaultProxy, tmp_path: Path, real: Registry
) -> None:
    with store_with(tmp_path / "store", IMAGE, attached=[b"one", b"two"]) as store:
        done = push_to(proxy.url, "a/referred", store, DIGEST, "1")
        assert done.listed_by == "tag"
        assert proxy.sent(f"PUT .*sha256-{DIGEST.hex}") > 0
        proxy.forget()
        push_to(proxy.url, "a/referred", store, DIGEST, "1")
        assert proxy.count(f"PUT .*sha256-{DIGEST.hex}") == 0
    answer = requests.get(
        f"{real.url}/v2/a/referred/manifests/sha256-{DIGEST.hex}", headers={"Accept": INDEX_TYPE}, timeout=5
    )
    entries = answer.json()["manifests"]
    assert [entry["digest"] for entry in entries] == sorted(str(one.digest) for one in done.plan.referrers)
    assert {entry["artifactType"] for entry in entries} == {"application/vnd.example.note"}
    assert {entry["annotations"]["about"] for entry in entries} == {"a test"}


def test_a_registry_that_lists_referrers_itself_gets_no_tag(tmp_path: Path) -> None:
    with spec_registry() as keeping, store_with(tmp_path / "store", IMAGE, attached=[b"one"]) as store:
        assert push_to(keeping.url, "a/api", store, DIGEST, "1").listed_by == "registry"
        assert f"a/api/sha256-{DIGEST.hex}" not in keeping.manifests
        with LocalStore(tmp_path / "other") as other:
            assert len(pull_from(keeping.url, "a/api:1", other).referrers) == 1


def test_referrers_stay_where_they_are_when_that_is_wanted(proxy: FaultProxy, tmp_path: Path) -> None:
    with store_with(tmp_path / "store", IMAGE, attached=[b"one"]) as store:
        done = push_to(proxy.url, "a/alone", store, DIGEST, referrers=False)
    assert (done.plan.referrers, done.listed_by) == ((), None)


def test_two_pushes_at_once_list_the_referrers_of_both(proxy: FaultProxy, tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def run(name: str) -> None:
        try:
            with store_with(tmp_path / name, IMAGE, attached=[name.encode()]) as store:
                push_to(proxy.url, "a/both", store, DIGEST, "1")
        except BaseException as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with LocalStore(tmp_path / "other") as other:
        assert len(pull_from(proxy.url, "a/both:1", other).referrers) == 2


# A registry that keeps what a broken connection brought


@pytest.mark.usefixtures("pieces")
def test_an_upload_goes_on_inside_a_piece_where_the_registry_kept_the_beginning(store: LocalStore) -> None:
    with spec_registry() as keeping, FaultProxy(keeping.host) as proxy:
        proxy.add("PATCH", "reset-request", 100_000)
        push_to(proxy.url, "a/kept", store, DIGEST)
        assert proxy.sent("PATCH") == 700_000
        assert keeping.blobs == IMAGE.blobs


@pytest.mark.usefixtures("pieces")
def test_pieces_are_as_large_as_a_registry_wants_them(store: LocalStore) -> None:
    with spec_registry(smallest=500_000) as keeping:
        push_to(keeping.url, "a/large", store, DIGEST)
        assert keeping.pieces == [500_000, 200_000]
