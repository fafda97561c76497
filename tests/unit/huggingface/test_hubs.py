# SPDX-License-Identifier: Apache-2.0
"""Pinning and fetching models, from a hub that behaves and one that does not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.errors import Corrupt, HostRefuses, InputErrors, Unavailable, UpstreamGone
from derive.huggingface.fetch import fetch_hf_file, fetch_hf_files
from derive.huggingface.hubs import Hubs
from derive.huggingface.model import HfFile, HfPin, Kind
from derive.huggingface.resolve import resolve_hf
from derive.net.fetch import Fetcher
from derive.net.http import Settings
from derive.net.places import ArchiveFolder, FixedMirrors, Mirror
from derive.store.local import LocalStore
from derive.store.memory import MemoryStore
from derive.store.protocol import Store
from support.archives import said
from support.hf_server import TOKEN, HfServer, Repo, blob_id, pointer_text

QUICK = Settings(
    connect_s=1, read_s=0.4, attempts=3, first_delay_s=0.01, longest_delay_s=0.02, slowest=1000, slow_window_s=0.3
)
ONE, TWO = "1" * 40, "2" * 40
SHARD = hashlib.shake_256(b"weights").digest(700_000)
SHARD_1 = "model-00001-of-00002.safetensors"
FILES = {
    "config.json": b'{"architectures": ["X"]}',
    "inference/model.py": b"import torch\n",
    SHARD_1: SHARD,
    "model-00002-of-00002.safetensors": SHARD[::-1],
    "encoding/caf\u00e9 #1?.txt": b"odd name",
    "empty": b"",
}
LARGE = frozenset(path for path in FILES if path.endswith(".safetensors"))
NAME = "deep/model-v4.1"


def repo(**more: object) -> Repo:
    commits = {ONE: FILES, TWO: {**FILES, "config.json": b"{}"}}
    return Repo(commits=commits, refs={"main": TWO, "refs/pr/7": ONE, "v1": ONE}, large=LARGE, **more)  # type: ignore[arg-type]


class Place:
    """A store, and what reaches hubs for it."""

    def __init__(self, *urls: str, store: Store | None = None, environ: dict[str, str] | None = None) -> None:
        self.notes: list[str] = []
        self.store: Store = store or MemoryStore()
        self.fetcher = Fetcher(store=self.store, mirrors=FixedMirrors(), progress=self, settings=QUICK)
        self.hubs = Hubs(
            mirrors=[Mirror(url=url) for url in urls],
            client=self.fetcher.client,
            progress=self,
            environ=environ or {"HOME": "/nonexistent"},
        )

    def resolve(self, revision: str = ONE, *, name: str = NAME, kind: Kind = "model") -> HfPin:
        return resolve_hf(self.store, self.hubs, name, revision, kind=kind)

    def fetch(self, pin: HfPin, path: str) -> bytes:
        file = pin.file(path)
        assert file is not None
        return b"".join(self.store.read_blob(fetch_hf_file(self.fetcher, self.hubs, pin, file, reuse=False)))

    def start(self, name: str, size: int | None) -> None:
        del name, size

    def advance(self, name: str, count: int) -> None:
        del name, count

    def done(self, name: str) -> None:
        del name

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture
def server() -> Iterator[HfServer]:
    with HfServer() as running:
        running.repos[f"models/{NAME}"] = repo()
        yield running


def test_every_file_of_a_revision_is_pinned_and_large_ones_are_not_fetched_for_it(server: HfServer) -> None:
    pin = Place(server.url).resolve()
    assert pin == HfPin(
        repository=NAME,
        kind="model",
        revision=ONE,
        files=tuple(
            HfFile(
                path=path,
                size=len(data),
                sha256=sha256(data),
                blob_id=blob_id(pointer_text(data) if path in LARGE else data),
            )
            for path, data in sorted(FILES.items(), key=lambda item: item[0].encode())
        ),
    )
    assert pin.size == sum(len(data) for data in FILES.values())
    assert pin.unpinned == ()
    assert server.elsewhere == []


def test_what_was_fetched_to_be_hashed_is_kept(server: HfServer) -> None:
    place = Place(server.url)
    place.resolve()
    assert place.store.has_blob(sha256(FILES["config.json"]))


@pytest.mark.parametrize(("revision", "commit"), [("main", TWO), ("v1", ONE), ("refs/pr/7", ONE), (TWO, TWO)])
def test_a_branch_or_a_tag_is_resolved_to_its_commit(server: HfServer, revision: str, commit: str) -> None:
    place = Place(server.url)
    assert place.hubs.commit(NAME, revision) == commit
    assert place.resolve(revision).revision == commit


def test_a_list_comes_in_pages(server: HfServer) -> None:
    whole = Place(server.url).resolve()
    for size in (1, 2, 3):
        with HfServer(page=size) as paged:
            paged.repos[f"models/{NAME}"] = repo()
            assert Place(paged.url).resolve() == whole


def test_the_next_page_is_asked_of_the_hub_that_gave_this_one(server: HfServer) -> None:
    with HfServer(page=2) as paged:
        paged.repos[f"models/{NAME}"] = repo()
        paged.link_base = server.url
        assert Place(paged.url).resolve() == Place(server.url).resolve()
        assert all("cursor" not in asked.path for asked in server.asked)


def test_a_data_set_has_paths_of_its_own(server: HfServer) -> None:
    server.repos["datasets/deep/data"] = repo()
    place = Place(server.url)
    pin = place.resolve("main", name="deep/data", kind="dataset")
    assert pin.kind == "dataset"
    assert place.fetch(pin, SHARD_1) == SHARD
    with pytest.raises(Unavailable, match="deep/data is private, or not there"):
        place.resolve("main", name="deep/data")


def test_a_large_file_is_fetched_from_where_the_hub_says(server: HfServer) -> None:
    place = Place(server.url)
    assert place.fetch(place.resolve(), SHARD_1) == SHARD
    assert len(server.elsewhere) == 1


def test_several_files_are_fetched_at_once(server: HfServer) -> None:
    place = Place(server.url)
    pin = place.resolve()
    fetch_hf_files(place.fetcher, place.hubs, pin, pin.files)
    assert all(place.store.has_blob(sha256(data)) for data in FILES.values())


def test_a_name_is_escaped_in_its_url(server: HfServer) -> None:
    place = Place(server.url)
    assert place.fetch(place.resolve(), "encoding/café #1?.txt") == b"odd name"


def test_a_transfer_that_breaks_off_goes_on_where_it_was(server: HfServer) -> None:
    server.repos[f"models/{NAME}"].cut = 300_000
    place = Place(server.url)
    assert place.fetch(place.resolve(), SHARD_1) == SHARD
    assert [asked.headers.get("range") for asked in server.elsewhere] == [None, "bytes=300000-"]


def test_a_later_run_goes_on_where_an_earlier_one_ended(server: HfServer, tmp_path: Path) -> None:
    with LocalStore(tmp_path / "store") as store:
        place = Place(server.url, store=store)
        pin = place.resolve()
        server.repos[f"models/{NAME}"].cut = 300_000
        place.fetcher.client.settings = replace(QUICK, attempts=1)
        with pytest.raises(Unavailable):
            place.fetch(pin, SHARD_1)
    with LocalStore(tmp_path / "store") as store:
        again = Place(server.url, store=store)
        assert again.fetch(pin, SHARD_1) == SHARD
        start = int(server.elsewhere[-1].headers["range"].removeprefix("bytes=").rstrip("-"))
        assert 200_000 < start <= 300_000


def test_a_repository_that_was_renamed_is_followed(server: HfServer) -> None:
    server.renamed["models/old/name"] = f"models/{NAME}"
    place = Place(server.url)
    pin = place.resolve(name="old/name")
    assert pin.files == place.resolve().files
    assert place.fetch(pin, "config.json") == FILES["config.json"]


@pytest.mark.parametrize("where", ["HF_TOKEN", "HF_TOKEN_PATH", "HF_HOME", "HOME"])
def test_a_closed_repository_gets_the_persons_token(server: HfServer, tmp_path: Path, where: str) -> None:
    server.repos[f"models/{NAME}"] = repo(access="gated")
    file = tmp_path / {"HF_HOME": "token", "HOME": ".cache/huggingface/token"}.get(where, "mine")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(TOKEN + "\n")
    value = {"HF_TOKEN": TOKEN, "HF_TOKEN_PATH": str(file)}.get(where, str(tmp_path))
    place = Place(server.url, environ={where: value})
    pin = place.resolve()
    assert place.fetch(pin, SHARD_1) == SHARD
    assert server.asked[0].headers.get("authorization") is None
    assert {asked.headers.get("authorization") for asked in server.asked[1:]} == {f"Bearer {TOKEN}"}
    assert [asked.headers.get("authorization") for asked in server.elsewhere] == [None]


def test_every_one_of_several_transfers_gets_the_token_though_all_began_without(server: HfServer) -> None:
    files = {f"{number:02}.safetensors": b"%d" % number * 1000 for number in range(24)}
    server.repos["models/a/many"] = Repo(commits={ONE: files}, large=frozenset(files))
    pin = Place(server.url).resolve(name="a/many")
    server.repos["models/a/many"].access = "gated"
    place = Place(server.url, environ={"HF_TOKEN": TOKEN})
    fetch_hf_files(place.fetcher, place.hubs, pin, pin.files, jobs=12)
    assert all(place.store.has_blob(sha256(data)) for data in files.values())


def test_a_hub_that_serves_everybody_never_sees_the_token(server: HfServer) -> None:
    place = Place(server.url, environ={"HF_TOKEN": TOKEN})
    place.fetch(place.resolve(), "config.json")
    assert all("authorization" not in asked.headers for asked in server.asked)


def test_the_token_is_not_sent_over_an_open_connection(server: HfServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.repos[f"models/{NAME}"] = repo(access="gated")
    monkeypatch.setattr("derive.huggingface.hubs._is_private", lambda _: False)  # this machine has no other network
    place = Place(server.url, environ={"HF_TOKEN": TOKEN})
    with pytest.raises(Unavailable, match="is gated"):
        place.resolve()
    assert place.notes == [f"{server.url} is reached without TLS: it does not get the token"]
    assert all("authorization" not in asked.headers for asked in server.asked)


@pytest.mark.parametrize(
    ("access", "token", "words"),
    [
        ("gated", None, f"{NAME} is gated: its hub serves it to those who have accepted its terms"),
        ("refused", TOKEN, f"{NAME} is gated: its hub serves it to those who have accepted its terms"),
        ("private", None, f"{NAME} is private, or not there"),
        ("gated", "hf_wrong", f"{NAME} is private, or not there"),
    ],
)
def test_a_closed_repository_is_told_with_what_opens_it(
    server: HfServer, access: str, token: str | None, words: str
) -> None:
    server.repos[f"models/{NAME}"] = repo(access=access)
    place = Place(server.url, environ={"HF_TOKEN": token} if token else None)
    with pytest.raises(Unavailable) as caught:
        place.resolve()
    assert caught.value.message == words
    assert "HF_TOKEN" in str(caught.value.hint)
    assert "hf_" not in said(caught.value)


def test_a_gated_file_is_told_as_closed(server: HfServer) -> None:
    place = Place(server.url)
    pin = place.resolve()
    server.repos[f"models/{NAME}"] = repo(access="gated")
    with pytest.raises(Unavailable) as caught:
        place.fetch(pin, SHARD_1)
    assert not isinstance(caught.value, UpstreamGone)
    assert caught.value.detail == (f"tried     {server.url}/{NAME}/resolve/{ONE}/{SHARD_1}: 401 Unauthorized",)
    assert "log in, or set a token" in str(caught.value.hint)


def test_without_a_hub_it_is_said_how_to_name_one(server: HfServer) -> None:
    pin = Place(server.url).resolve()
    for ask in (lambda: Place().resolve(), lambda: Place().fetch(pin, SHARD_1)):
        with pytest.raises(HostRefuses) as caught:
            ask()
        assert "DERIVE_MIRROR_HF" in str(caught.value.hint)


def test_an_archive_does_where_no_hub_has_it(server: HfServer, tmp_path: Path) -> None:
    pin = Place(server.url).resolve()
    (tmp_path / "blobs/sha256").mkdir(parents=True)
    (tmp_path / "blobs/sha256" / sha256(SHARD).hex).write_bytes(SHARD)
    place = Place()
    mirrors = FixedMirrors(archive_places=(ArchiveFolder(path=str(tmp_path)),))
    place.fetcher = Fetcher(store=place.store, mirrors=mirrors, progress=place, settings=QUICK)
    assert place.fetch(pin, SHARD_1) == SHARD


def test_a_revision_a_repository_and_a_file_that_are_not_there_are_gone(server: HfServer) -> None:
    place = Place(server.url)
    with pytest.raises(UpstreamGone, match=f"^{NAME} has no revision v9$"):
        place.resolve("v9")
    with pytest.raises(UpstreamGone, match=f"^{NAME} has no revision {'9' * 40}$"):
        place.resolve("9" * 40)
    with pytest.raises(Unavailable, match=r"^deep/none is private, or not there$"):
        place.resolve(name="deep/none")
    server.repos["models/deep/none"] = repo(access="gated")
    known = Place(server.url, environ={"HF_TOKEN": TOKEN})
    known.resolve(name="deep/none")  # it has asked for the token, and is sent it from now on
    with pytest.raises(UpstreamGone, match=r"^no hub has deep/nothing$"):
        known.resolve(name="deep/nothing")
    pin = place.resolve()
    server.repos[f"models/{NAME}"].gone = frozenset(("config.json", SHARD_1))
    with pytest.raises(UpstreamGone, match=f"^{NAME}@111111111111: no hub serves config.json$"):
        place.resolve()
    with pytest.raises(UpstreamGone, match=r"no mirror serves deep/model-v4.1@1{40}: model-00001-of-00002.safetensors"):
        place.fetch(pin, SHARD_1)


def test_a_small_file_that_is_not_the_committed_one_is_corrupt(server: HfServer) -> None:
    server.repos[f"models/{NAME}"].wrong = {"config.json": b'{"architectures": ["Y"]}'}
    with pytest.raises(Corrupt) as caught:
        Place(server.url).resolve()
    assert caught.value.message == "not the file that is committed"
    assert caught.value.detail[0] == f"expected  git blob {blob_id(FILES['config.json'])}"
    server.repos[f"models/{NAME}"].wrong = {"config.json": b"x"}
    with pytest.raises(Corrupt, match="another size than the commit states"):
        Place(server.url).resolve()


def test_a_large_file_of_other_bytes_is_corrupt_and_not_kept(server: HfServer) -> None:
    place = Place(server.url)
    pin = place.resolve()
    server.repos[f"models/{NAME}"].wrong = {SHARD_1: SHARD[::-1]}
    with pytest.raises(Corrupt):
        place.fetch(pin, SHARD_1)
    assert not place.store.has_blob(sha256(SHARD[::-1]))


def test_the_next_hub_is_asked_when_one_is_down_lacks_it_or_answers_nonsense(server: HfServer) -> None:
    with HfServer() as empty, HfServer() as mad:
        mad.repos[f"models/{NAME}"] = repo(listed=[{"type": "submodule"}])
        place = Place("http://127.0.0.1:1", empty.url, mad.url, server.url)
        assert place.fetch(place.resolve(), SHARD_1) == SHARD
    assert place.notes == ["http://127.0.0.1:1 does not answer (connection refused): skipped from now on"]


def test_a_hub_that_answers_for_another_commit_is_not_believed(server: HfServer) -> None:
    server.repos[f"models/{NAME}"].refs = {ONE: TWO}
    with pytest.raises(Corrupt, match="answers for another commit"):
        Place(server.url).resolve(ONE)


def test_a_file_without_a_hash_is_refused_by_name(server: HfServer) -> None:
    file = HfFile(path="model.bin", size=5, sha256=None)
    pin = HfPin(repository=NAME, kind="model", revision=ONE, files=(file,))
    place = Place(server.url)
    for refused in (
        lambda: place.fetch(pin, "model.bin"),
        lambda: fetch_hf_files(place.fetcher, place.hubs, pin, pin.files),
    ):
        with pytest.raises(InputErrors) as caught:
            refused()
        assert f"{NAME}@111111111111: model.bin: a file whose hash is not pinned" in said(caught.value)
    assert server.asked == []


def test_offline_nothing_is_asked(server: HfServer) -> None:
    place = Place(server.url)
    away = Hubs(mirrors=[Mirror(url=server.url)], client=place.fetcher.client, offline=True)
    with pytest.raises(Unavailable, match="is not read offline"):
        resolve_hf(place.store, away, NAME, "main")
    assert server.asked == []


@pytest.mark.parametrize("name", ["", "a/b/c", "../x", "a/..", "a b/c", "a/b--c", "a/b..c", ".a/b"])
def test_what_names_no_repository_is_refused(server: HfServer, name: str) -> None:
    with pytest.raises(InputErrors, match="problem"):
        Place(server.url).resolve(name=name)
    assert server.asked == []


@pytest.mark.parametrize("token", ["a b", "caf\u00e9", "a\nb"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(server: HfServer, token: str) -> None:
    server.repos[f"models/{NAME}"] = repo(access="gated")
    with pytest.raises(InputErrors) as caught:
        Place(server.url, environ={"HF_TOKEN": token}).resolve()
    assert said(caught.value) == "HF_TOKEN: a token that no header can carry\n"


def test_ten_thousand_small_files_are_listed_quickly() -> None:
    files = {f"data/{number:05}.txt": b"%d" % number for number in range(10_000)}
    with HfServer() as server:
        server.repos["models/a/many"] = Repo(commits={ONE: files}, large=frozenset(files))
        pin = Place(server.url).resolve(name="a/many")
    assert len(pin.files) == 10_000
    assert [file.path for file in pin.files] == sorted(files)
