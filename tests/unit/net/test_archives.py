# SPDX-License-Identifier: Apache-2.0
"""Places that keep artifacts by hash: asked last, in order, and left alone once they fail."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, HostRefuses, InputErrors, Unavailable, UpstreamGone
from derive.lock.mirrors import SystemMirrors
from derive.net.archives import by_hash
from derive.net.fetch import Fetcher
from derive.net.http import Settings
from derive.net.places import (
    ArchiveFolder,
    ArchivePlace,
    ArchiveSite,
    DebPath,
    FixedMirrors,
    Mirror,
    MirrorSource,
    Place,
    Wanted,
)
from derive.net.progress import Quiet
from derive.store.local import LocalStore
from support.servers import FaultServer, Reply

BODY = b"kept " * 50_000
NAME = sha256(BODY)
PATH = "pool/main/x/x/x_1_amd64.deb"
QUICK = Settings(connect_s=1, read_s=0.3, attempts=2, first_delay_s=0.01, longest_delay_s=0.02)


class Notes(Quiet):
    """Keeps what is said, and from where things came."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.sources: list[tuple[Digest, str]] = []

    def note(self, message: str) -> None:
        self.said.append(message)

    def record(self, digest: Digest, place: str) -> None:
        self.sources.append((digest, place))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def notes() -> Notes:
    return Notes()


def deb(body: bytes = BODY, name: str = "x") -> Wanted:
    locator = DebPath(archive="debian", path=PATH.replace("x", name))
    return Wanted(name=name, version="1", locator=locator, sha256=sha256(body), size=len(body))


def keep(folder: Path, data: bytes, digest: Digest | None = None) -> ArchiveFolder:
    """Put an artifact into an archive, under its own hash or another one."""
    target = Path(by_hash(str(folder), digest or sha256(data)))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return ArchiveFolder(path=str(folder))


def site(server: FaultServer, *replies: Reply, digest: Digest = NAME, base: str = "/kept") -> ArchiveSite:
    server.serve(by_hash(base, digest), *replies)
    return ArchiveSite(url=server.url + base)


def fetcher(
    store: LocalStore,
    *places: ArchivePlace,
    mirror: str | None = None,
    notes: Notes | None = None,
    offline: bool = False,
) -> Fetcher:
    notes = notes or Notes()
    mirrors = FixedMirrors(debian_archives=(Mirror(url=mirror),) if mirror else (), archive_places=places)
    return Fetcher(store=store, mirrors=mirrors, progress=notes, offline=offline, settings=QUICK, record=notes.record)


def whole(store: LocalStore) -> bool:
    return b"".join(store.read_blob(NAME)) == BODY


def test_what_a_mirror_serves_is_not_asked_of_archives(
    store: LocalStore, server: FaultServer, notes: Notes, tmp_path: Path
) -> None:
    url = server.serve(f"/{PATH}", Reply(body=BODY))
    with fetcher(store, keep(tmp_path / "kept", BODY), mirror=server.url, notes=notes) as fetch:
        fetch.fetch(deb())
        assert fetch.has_served(deb())
    assert notes.sources == [(NAME, url)]
    assert notes.said == []


def test_what_is_gone_comes_from_the_first_archive_that_has_it(
    store: LocalStore, server: FaultServer, notes: Notes, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    places = (
        ArchiveFolder(path=str(tmp_path / "empty")),
        site(server, Reply(status=404), base="/none"),
        keep(tmp_path / "kept", BODY),
        site(server, Reply(body=BODY)),
    )
    with fetcher(store, *places, mirror=server.url, notes=notes) as fetch:
        assert fetch.fetch(deb()) == NAME
    assert whole(store)
    assert notes.sources == [(NAME, str(tmp_path / "kept"))]
    assert notes.said == [f"what no mirror serves comes from the archive {tmp_path / 'kept'}"]
    assert server.paths() == [f"/{PATH}", by_hash("/none", NAME)]


def test_a_site_serves_by_hash_with_its_credentials_shown_nowhere(
    store: LocalStore, server: FaultServer, notes: Notes
) -> None:
    place = site(server, Reply(body=BODY, cut=100_000), Reply(body=BODY))
    hidden = ArchiveSite(url=place.url.replace("http://", "http://me:secret@"))
    with fetcher(store, hidden, mirror=server.url, notes=notes) as fetch:
        fetch.fetch(deb())
    assert whole(store)
    assert notes.sources == [(NAME, place.url)]
    assert "secret" not in "".join(notes.said)
    assert server.requests[1].headers["authorization"].startswith("Basic ")


def test_mirrors_that_are_down_make_archives_serve(store: LocalStore, notes: Notes, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{probe.getsockname()[1]}"
        bodies = {name: name.encode() * 1000 for name in "abc"}
        places = {keep(tmp_path / "kept", body) for body in bodies.values()}
        with fetcher(store, *places, mirror=dead, notes=notes) as fetch:
            fetch.fetch_all([deb(body, name) for name, body in bodies.items()], jobs=1)
    assert notes.said == [
        f"{dead} does not answer (connection refused): skipped from now on",
        f"what no mirror serves comes from the archive {tmp_path / 'kept'}",
    ]


def test_without_a_mirror_archives_are_enough(store: LocalStore, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": str(tmp_path)}
    kept = keep(tmp_path / "kept", BODY)
    with Fetcher(store=store, mirrors=SystemMirrors(environ=environ)) as fetch, pytest.raises(HostRefuses):
        fetch.fetch(deb())
    mirrors: MirrorSource = SystemMirrors(environ={**environ, "DERIVE_ARCHIVES": kept.path})
    with Fetcher(store=store, mirrors=mirrors) as fetch:
        fetch.fetch(deb())
    assert whole(store)


def test_archives_wrongly_named_are_input_errors(store: LocalStore, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": str(tmp_path), "DERIVE_ARCHIVES": "kept"}
    with Fetcher(store=store, mirrors=SystemMirrors(environ=environ)) as fetch, pytest.raises(InputErrors):
        fetch.fetch(deb())


def test_what_neither_mirrors_nor_archives_have_is_gone_and_every_place_is_named(
    store: LocalStore, server: FaultServer, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    places = (ArchiveFolder(path=str(tmp_path / "empty")), site(server, Reply(status=500)))
    with fetcher(store, *places, mirror=server.url) as fetch, pytest.raises(UpstreamGone) as caught:
        fetch.fetch(deb())
    assert caught.value.detail == (
        f"tried     {server.url}/{PATH}: 404 Not Found",
        f"tried     {tmp_path / 'empty'}: has no such file",
        f"tried     {server.url}/kept: 500 Internal Server Error",
    )


def test_a_folder_that_cannot_be_used_is_said_once(store: LocalStore, server: FaultServer, notes: Notes) -> None:
    place = ArchiveFolder(path="/nowhere/at/all")
    with fetcher(store, place, mirror=server.url, notes=notes) as fetch:
        with pytest.raises(UpstreamGone):
            fetch.fetch(deb(b"a", "a"))
        with pytest.raises(UpstreamGone) as caught:
            fetch.fetch(deb(b"b", "b"))
    assert notes.said == ["the archive /nowhere/at/all cannot be used (no such file or directory): skipped from now on"]
    assert caught.value.detail[1].endswith("no such file or directory (skipped in this run)")


def test_a_site_that_lets_nobody_in_is_said_once_and_asked_once(
    store: LocalStore, server: FaultServer, notes: Notes
) -> None:
    site(server, Reply(status=403), digest=sha256(b"a"))
    place = site(server, Reply(status=403), digest=sha256(b"b"))
    with fetcher(store, place, mirror=server.url, notes=notes) as fetch:
        for name in ("a", "b"):
            with pytest.raises(UpstreamGone):
                fetch.fetch(deb(name.encode(), name))
    assert notes.said == [f"the archive {place.url} cannot be used (403 Forbidden): skipped from now on"]
    assert len([path for path in server.paths() if path.startswith("/kept")]) == 1


def test_a_site_that_hangs_is_said_once_and_the_next_archive_serves(
    store: LocalStore, server: FaultServer, notes: Notes, tmp_path: Path
) -> None:
    bodies = {name: name.encode() * 1000 for name in "abc"}
    with FaultServer() as hanging:
        hung = {site(hanging, Reply(hang=True), digest=sha256(body)) for body in bodies.values()}
        kept = {keep(tmp_path / "kept", body) for body in bodies.values()}
        with fetcher(store, *hung, *kept, mirror=server.url, notes=notes) as fetch:
            for name, body in bodies.items():
                fetch.fetch(deb(body, name))
        assert len(hanging.requests) == QUICK.attempts
        assert notes.said == [
            f"{hanging.url} does not answer (no answer in 0.3 s): skipped from now on",
            f"what no mirror serves comes from the archive {tmp_path / 'kept'}",
        ]


def test_wrong_bytes_of_an_archive_are_told_and_the_next_one_serves(
    store: LocalStore, server: FaultServer, notes: Notes, tmp_path: Path
) -> None:
    places = (keep(tmp_path / "bad", bytes(len(BODY)), NAME), keep(tmp_path / "good", BODY))
    with fetcher(store, *places, mirror=server.url, notes=notes) as fetch:
        fetch.fetch(deb())
    assert whole(store)
    assert f"another mirror was used: {tmp_path / 'bad'}: served other bytes" in notes.said


def test_wrong_bytes_of_the_only_archive_are_kept_nowhere(
    store: LocalStore, server: FaultServer, tmp_path: Path
) -> None:
    place = keep(tmp_path / "bad", bytes(len(BODY)), NAME)
    with fetcher(store, place, mirror=server.url) as fetch, pytest.raises(UpstreamGone) as caught:
        fetch.fetch(deb())
    assert f"tried     {tmp_path / 'bad'}: served other bytes" in caught.value.detail
    assert not store.has_blob(NAME)


def test_offline_folders_are_asked_and_no_host(store: LocalStore, server: FaultServer, tmp_path: Path) -> None:
    places = (site(server, Reply(body=BODY)), keep(tmp_path / "kept", BODY))
    with fetcher(store, places[0], mirror=server.url, offline=True) as fetch:
        assert not fetch.has_archived(NAME)
        with pytest.raises(Unavailable, match="nothing is fetched offline"):
            fetch.fetch(deb())
    with fetcher(store, *places, mirror=server.url, offline=True) as fetch:
        assert fetch.has_archived(NAME)
        fetch.fetch(deb())
    assert whole(store)
    assert server.requests == []


def test_the_store_is_no_archive_of_itself(store: LocalStore, server: FaultServer) -> None:
    with store.blob_writer() as writer:
        writer.write(BODY)
        writer.commit()
    place = ArchiveFolder(path=str(store.root))
    with fetcher(store, place, mirror=server.url) as fetch, pytest.raises(UpstreamGone) as caught:
        fetch.fetch(deb(), reuse=False)
    assert caught.value.detail[1].endswith("is the store itself")


def test_another_store_is_an_archive(store: LocalStore, server: FaultServer, tmp_path: Path) -> None:
    with LocalStore(tmp_path / "other") as other, other.blob_writer() as writer:
        writer.write(BODY)
        writer.commit()
    with fetcher(store, ArchiveFolder(path=str(other.root)), mirror=server.url) as fetch:
        fetch.fetch(deb())
    assert whole(store)


def test_a_damaged_blob_is_brought_back_from_an_archive(store: LocalStore, notes: Notes, tmp_path: Path) -> None:
    damaged = Path(by_hash(str(store.root), NAME))
    damaged.write_bytes(bytes(len(BODY)))
    with fetcher(store, keep(tmp_path / "kept", BODY), notes=notes) as fetch:
        assert fetch.fetch_blob(NAME, len(BODY), "x.deb") == NAME
    assert whole(store)
    assert notes.sources == [(NAME, str(tmp_path / "kept"))]


def test_a_blob_that_no_archive_gives_is_told(store: LocalStore, tmp_path: Path) -> None:
    with fetcher(store) as fetch, pytest.raises(Unavailable, match=r"x\.deb: no archive is configured"):
        fetch.fetch_blob(NAME, None, "x.deb")
    (tmp_path / "kept").mkdir()
    with fetcher(store, ArchiveFolder(path=str(tmp_path / "kept"))) as fetch:
        with pytest.raises(Unavailable, match=r"x\.deb: no archive has it"):
            fetch.fetch_blob(NAME, None, "x.deb")
        place = keep(tmp_path / "kept", b"other", NAME)
        with pytest.raises(Corrupt, match="holds other bytes") as caught:
            fetch.fetch_blob(NAME, None, "x.deb")
    assert caught.value.detail[0] == f"expected  {NAME}"
    assert caught.value.detail[2] == f"tried     {place.path}: served other bytes"


def test_given_urls_come_first_and_archives_after_them(store: LocalStore, server: FaultServer, tmp_path: Path) -> None:
    url = server.serve("/x", Reply(status=404))
    with fetcher(store, keep(tmp_path / "kept", BODY)) as fetch:
        fetch.fetch_at(deb(), [Place(url=url)])
    assert whole(store)
    assert server.paths() == ["/x"]
