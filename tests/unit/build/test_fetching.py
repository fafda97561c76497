# SPDX-License-Identifier: Apache-2.0
"""The fetch steps of a build: from mirrors, else archives, with a note of where each thing came from."""

from __future__ import annotations

import lzma
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.build.fetching import StoreFetch, wanted
from derive.canonical import Digest, sha256
from derive.derivations import steps
from derive.derivations.model import Derivation, ResolvedDerivation, resolve
from derive.errors import Corrupt, Interrupted, Unavailable, UpstreamGone
from derive.lock.documents import DebEntry, SourceEntry, SourceFile, WheelEntry
from derive.net.http import Settings
from derive.net.places import ArchiveFolder, DebPath, FixedMirrors, Mirror, WheelFile
from derive.net.progress import NotesOnly
from derive.store.history import sources_of
from derive.store.local import LocalStore
from support.servers import FaultServer, Reply

BODY = b"package " * 100_000
QUICK = Settings(connect_s=1, read_s=0.3, attempts=2, first_delay_s=0.01, longest_delay_s=0.02)
ENTRY = DebEntry(
    name="hello",
    version="2.10-5",
    architecture="amd64",
    file="hello_2.10-5_amd64.deb",
    locator="pool/main/h/hello/hello_2.10-5_amd64.deb",
    suite="trixie",
    size=len(BODY),
    sha256=sha256(BODY),
    licence="GPL-3.0",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def request_of(derivation: Derivation) -> ResolvedDerivation:
    return resolve(derivation, {})


def fetch_from(
    server: FaultServer, *archives: Path, offline: bool = False, notes: list[str] | None = None
) -> StoreFetch:
    mirrors = FixedMirrors(
        debian_archives=(Mirror(url=server.url),),
        archive_places=tuple(ArchiveFolder(path=str(path)) for path in archives),
    )
    said = [] if notes is None else notes
    return StoreFetch(NotesOnly(said.append), offline=offline, mirrors=mirrors, settings=QUICK)


def keep(folder: Path, data: bytes) -> Path:
    target = folder / "blobs" / "sha256" / sha256(data).hex
    target.parent.mkdir(parents=True)
    target.write_bytes(data)
    return folder


def test_a_step_says_what_is_wanted_and_how_it_is_found() -> None:
    assert wanted(request_of(steps.fetch_deb(ENTRY))).locator == DebPath(archive="debian", path=ENTRY.locator)
    secure = replace(ENTRY, suite="trixie-security")
    assert wanted(request_of(steps.fetch_deb(secure))).locator == DebPath(archive="debian-security", path=ENTRY.locator)
    file = SourceFile(file="h.tar", locator="pool/main/h/h.tar", size=1, sha256=Digest("0" * 64))
    source = SourceEntry(name="h", version="1", suite="trixie", files=(file,), licence="x")
    assert wanted(request_of(steps.fetch_source(source, file))).locator == DebPath(
        archive="debian", path="pool/main/h/h.tar"
    )
    wheel = WheelEntry(name="x", version="1", file="x.whl", size=1, sha256=Digest("0" * 64), licence="x")
    assert wanted(request_of(steps.fetch_wheel(wheel))).locator == WheelFile(project="x", file="x.whl")


def test_where_an_artifact_came_from_is_noted_in_the_store(store: LocalStore, server: FaultServer) -> None:
    url = server.serve(f"/{ENTRY.locator}", Reply(body=BODY))
    with fetch_from(server) as fetch:
        fetch(request_of(steps.fetch_deb(ENTRY)), store)
    (source,) = sources_of(store.database, [ENTRY.sha256])
    assert source.place == url
    assert abs(source.fetched_s - time.time()) < 60


def test_h3_a_locator_that_moved_must_serve_it_itself(store: LocalStore, server: FaultServer) -> None:
    server.serve(f"/{ENTRY.locator}", Reply(body=BODY))
    moved = replace(ENTRY, locator=ENTRY.locator.replace("main", "contrib"))
    with fetch_from(server) as fetch:
        fetch(request_of(steps.fetch_deb(ENTRY)), store)
        with pytest.raises(UpstreamGone):
            fetch(request_of(steps.fetch_deb(moved)), store)
        server.serve(f"/{moved.locator}", Reply(body=bytes(len(BODY))))
        with pytest.raises(Corrupt):
            fetch(request_of(steps.fetch_deb(moved)), store)
        assert store.has_blob(ENTRY.sha256), "what another locator gave stays what it was"
        url = server.serve(f"/{moved.locator}", Reply(body=BODY))
        fetch(request_of(steps.fetch_deb(moved)), store)
    assert url in [source.place for source in sources_of(store.database, [ENTRY.sha256])]


def test_r4_a_deb_that_is_gone_comes_from_an_archive(store: LocalStore, server: FaultServer, tmp_path: Path) -> None:
    notes: list[str] = []
    kept = keep(tmp_path / "kept", BODY)
    with fetch_from(server, kept, notes=notes) as fetch:
        assert fetch(request_of(steps.fetch_deb(ENTRY)), store) == ENTRY.sha256
    assert notes == [f"what no mirror serves comes from the archive {kept}"]
    assert [source.place for source in sources_of(store.database, [ENTRY.sha256])] == [str(kept)]


def test_an_archive_whose_name_is_not_utf_8_serves_and_is_noted(
    store: LocalStore, server: FaultServer, tmp_path: Path
) -> None:
    kept = keep(tmp_path / "caf\udce9", BODY)
    notes: list[str] = []
    with fetch_from(server, kept, notes=notes) as fetch:
        fetch(request_of(steps.fetch_deb(ENTRY)), store)
    (source,) = sources_of(store.database, [ENTRY.sha256])
    assert source.place == f"{tmp_path}/caf\\xe9"
    assert notes[0].encode("ascii")


def test_r4_a_deb_that_is_gone_everywhere_names_what_is_served_now(
    store: LocalStore, server: FaultServer, tmp_path: Path
) -> None:
    index = b"Package: hello\nVersion: 2.10-6\n"
    server.serve("/dists/trixie/main/binary-amd64/Packages.xz", Reply(body=lzma.compress(index)))
    (tmp_path / "kept").mkdir()
    with fetch_from(server, tmp_path / "kept") as fetch, pytest.raises(UpstreamGone) as caught:
        fetch(request_of(steps.fetch_deb(ENTRY)), store)
    assert caught.value.detail == (
        f"tried     {server.url}/{ENTRY.locator}: 404 Not Found",
        f"tried     {tmp_path / 'kept'}: has no such file",
        "now       trixie serves 2.10-6",
    )
    assert caught.value.hint == "run: derive lock --update hello, or configure an archive that still has 2.10-5"


def test_offline_only_what_folders_keep_can_be_had(store: LocalStore, server: FaultServer, tmp_path: Path) -> None:
    other = replace(ENTRY, name="other", sha256=sha256(b"other"))
    fetches = [steps.fetch_deb(ENTRY), steps.fetch_deb(other)]
    with fetch_from(server, keep(tmp_path / "kept", BODY), offline=True) as fetch:
        assert fetch.not_archived(store, fetches) == (fetches[1],)
        fetch(request_of(fetches[0]), store)
        with pytest.raises(Unavailable, match="nothing is fetched offline"):
            fetch(request_of(fetches[1]), store)
    assert server.requests == []


def test_a_run_that_was_stopped_keeps_what_came(store: LocalStore, server: FaultServer) -> None:
    server.serve(f"/{ENTRY.locator}", Reply(body=BODY, cut=700_000), Reply(hang=True))
    fetch = fetch_from(server)
    fetch.fetcher(store)
    fetch.stop()
    with pytest.raises(Interrupted):
        fetch(request_of(steps.fetch_deb(ENTRY)), store)
    with fetch_from(server) as patient, pytest.raises(Unavailable):
        patient(request_of(steps.fetch_deb(ENTRY)), store)
    server.serve(f"/{ENTRY.locator}", Reply(body=BODY))
    with fetch_from(server) as again:
        again(request_of(steps.fetch_deb(ENTRY)), store)
    assert server.requests[-1].headers["range"] == f"bytes={700_000 - (1 << 16)}-"
