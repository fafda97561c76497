# SPDX-License-Identifier: Apache-2.0
"""Pinning and fetching images: from a real registry, open or behind a login, and from ones that misbehave."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, HostRefuses, InputErrors, Unavailable, UpstreamGone
from derive.net.fetch import Fetcher
from derive.net.http import Settings
from derive.net.places import ArchiveFolder, FixedMirrors, Mirror
from derive.oci.fetch import fetch_oci
from derive.oci.model import OciPin
from derive.oci.reference import parse_reference
from derive.oci.registry import Registries
from derive.oci.resolve import digest_of_tag, resolve_oci
from derive.oci.tree import oci_tree
from derive.store.memory import MemoryStore
from derive.store.protocol import Store
from support.archives import Tar, contents, folder, put, said, tar
from support.oci_registry import PASSWORD, USER, Image, Registry, image, index, registry
from support.require import skip_or_fail
from support.servers import FaultServer, Reply

QUICK = Settings(
    connect_s=1, read_s=0.4, attempts=3, first_delay_s=0.01, longest_delay_s=0.02, slowest=1000, slow_window_s=0.3
)
BASE = tar(folder(b"etc"), Tar(name=b"etc/os-release", data=b"ID=small\n"), Tar(name=b"run", data=b"x", mode=0o755))
BOTH = ("linux/amd64", "linux/arm64")
AMD64 = image(BASE, tar(Tar(name=b"amd64", data=b"1")))
ARM64 = image(BASE, tar(Tar(name=b"arm64", data=b"2")), platform="linux/arm64")


class Place:
    """A store, and what reaches registries for it."""

    def __init__(self, *urls: str, store: Store | None = None, environ: dict[str, str] | None = None) -> None:
        self.notes: list[str] = []
        self.store: Store = store or MemoryStore()
        self.fetcher = Fetcher(store=self.store, mirrors=FixedMirrors(), progress=self, settings=QUICK)
        self.registries = Registries(
            mirrors=[Mirror(url=url) for url in urls],
            client=self.fetcher.client,
            progress=self,
            environ=environ or {"HOME": "/nonexistent"},
        )

    def resolve(self, text: str, *platforms: str) -> OciPin:
        return resolve_oci(self.store, self.registries, parse_reference(text), platforms or BOTH)

    def fetch(self, pin: OciPin, platform: str = "linux/amd64", *, reuse: bool = True) -> Digest:
        return fetch_oci(self.store, self.registries, self.fetcher, pin, platform, reuse=reuse)

    def start(self, name: str, size: int | None) -> None:
        del name, size

    def advance(self, name: str, count: int) -> None:
        del name, count

    def done(self, name: str) -> None:
        del name

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry's folder, filled once."""
    place = tmp_path_factory.mktemp("registry")
    with registry(place) as running:
        running.push("library/small", "1", AMD64, ARM64)
        running.push("open/small", "1", AMD64, ARM64)
        running.push("library/docker", "1", _docker("amd64"), _docker("arm64"), docker=True)
        running.push("library/one", "1", AMD64, indexed=False)
    return place


def _docker(architecture: str) -> Image:
    return image(BASE, platform=f"linux/{architecture}", docker=True)


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[Registry]:
    with registry(data) as running:
        yield running


@pytest.fixture
def fault() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def login(place: Path, host: str, password: str = PASSWORD) -> dict[str, str]:
    """Write Docker's settings with a login."""
    packed = base64.b64encode(f"{USER}:{password}".encode()).decode()
    (place / "config.json").write_text(json.dumps({"auths": {host: {"auth": packed}}}))
    return {"DOCKER_CONFIG": str(place), "HOME": "/nonexistent"}


def test_an_index_is_pinned_for_every_platform_and_fetched_whole(server: Registry) -> None:
    place = Place(server.url)
    pin = place.resolve("library/small:1")
    assert [found.platform for found in pin.images] == ["linux/amd64", "linux/arm64"]
    assert [str(found.manifest.digest) for found in pin.images] == [AMD64.digest, ARM64.digest]
    assert pin.index == sha256(index(AMD64, ARM64)[1])
    assert pin.tag == "1"
    for platform, leaf in (("linux/amd64", b"amd64"), ("linux/arm64", b"arm64")):
        found = oci_tree(place.store, place.fetch(pin, platform))
        assert contents(place.store, found.listing)[b"etc/os-release"] == b"ID=small\n"
        assert leaf in found.listing


def test_the_bytes_of_the_documents_are_kept_as_they_were_served(server: Registry) -> None:
    place = Place(server.url)
    manifest = place.fetch(place.resolve("library/small:1"))
    assert b"".join(place.store.read_blob(manifest)) == AMD64.manifest


def test_dockers_own_types_are_read_too(server: Registry) -> None:
    place = Place(server.url)
    pin = place.resolve("library/docker:1")
    assert pin.images[0].manifest.media_type == "application/vnd.docker.distribution.manifest.v2+json"
    assert b"run" in oci_tree(place.store, place.fetch(pin)).listing


def test_a_digest_names_an_index_or_one_image(server: Registry) -> None:
    place = Place(server.url)
    top = digest_of_tag(place.registries, parse_reference("library/small:1"))
    assert place.resolve(f"library/small@{top}").index == top
    pin = place.resolve(f"library/small:1@{AMD64.digest}", "linux/amd64")
    assert (pin.index, pin.tag, len(pin.images)) == (None, "1", 1)


def test_a_tag_may_name_one_image_without_an_index(server: Registry) -> None:
    place = Place(server.url)
    pin = place.resolve("library/one:1", "linux/amd64")
    assert (pin.index, str(pin.images[0].manifest.digest)) == (None, AMD64.digest)
    with pytest.raises(UpstreamGone) as caught:
        place.resolve("library/one:1")
    assert said(caught.value) == ": library/one:1 has no image for linux/arm64\nit has    linux/amd64\n"


def test_a_platform_that_is_not_there_is_told_with_those_that_are(server: Registry) -> None:
    with pytest.raises(UpstreamGone) as caught:
        Place(server.url).resolve("library/small:1", "linux/riscv64", "linux/amd64")
    assert said(caught.value) == (
        ": library/small:1 has no image for linux/riscv64\nit has    linux/amd64, linux/arm64\n"
    )


@pytest.mark.parametrize("text", ["library/small:2", "library/none:1", f"library/small@sha256:{'0' * 64}"])
def test_what_no_registry_has_is_gone(server: Registry, text: str) -> None:
    with pytest.raises(UpstreamGone) as caught:
        Place(server.url).resolve(text)
    assert caught.value.message == f"no registry has {text}"
    assert caught.value.detail == (f"tried     {server.url}: 404 Not Found",)


def test_a_config_that_no_registry_has_is_named_as_the_blob_that_it_is(fault: FaultServer) -> None:
    config = next(iter(AMD64.blobs))
    serve(fault, AMD64, skip=(config,))
    with pytest.raises(UpstreamGone) as caught:
        Place(fault.url).resolve("x:1", "linux/amd64")
    assert caught.value.message.endswith(f": no registry has its blob {config}")
    assert caught.value.hint == "push it again: the registry has the manifest, and not all that it names"


def test_the_next_registry_is_asked_when_one_lacks_it_or_is_down(server: Registry, fault: FaultServer) -> None:
    place = Place("http://127.0.0.1:1", fault.url, server.url)
    manifest = place.fetch(place.resolve("library/small:1"))
    assert str(manifest) == AMD64.digest
    assert place.notes == ["http://127.0.0.1:1 does not answer (connection refused): skipped from now on"]


def test_an_image_that_skopeo_copied_there_is_pinned_by_the_digest_that_it_says(server: Registry) -> None:
    skopeo = shutil.which("skopeo") or skip_or_fail("skopeo is not installed")
    command = [skopeo, "--insecure-policy", "copy", "--all", "--src-tls-verify=false", "--dest-tls-verify=false"]
    reference = f"docker://{server.host}"
    subprocess.run([*command, "-q", f"{reference}/library/small:1", f"{reference}/copied/small:1"], check=True)
    said_by_it = subprocess.run(
        [skopeo, "inspect", "--tls-verify=false", "--format={{.Digest}}", f"{reference}/copied/small:1"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()
    assert str(Place(server.url).resolve("copied/small:1").index) == said_by_it


def test_a_registry_with_a_password_takes_dockers_login(data: Path, tmp_path: Path) -> None:
    with registry(data, auth="basic") as closed:
        place = Place(closed.url, environ=login(tmp_path, closed.host))
        assert str(place.fetch(place.resolve("library/small:1"))) == AMD64.digest
        with pytest.raises(Unavailable) as caught:
            Place(closed.url).resolve("library/small:1")
        assert caught.value.message == "library/small:1: the registry does not let us read it"
        assert caught.value.hint == f"is it there, and may you read it? Then run: docker login {closed.host}"
        wrong = Place(closed.url, environ=login(tmp_path, closed.host, "wrong"))
        with pytest.raises(Unavailable) as caught:
            wrong.resolve("library/small:1")
        assert caught.value.detail == (f"tried     {closed.url}: 401 Unauthorized",)


def test_a_registry_with_a_password_takes_the_login_in_its_url(data: Path) -> None:
    with registry(data, auth="basic") as closed:
        place = Place(f"http://{USER}:sec%3Aret@{closed.host}")
        assert str(place.fetch(place.resolve("library/small:1"))) == AMD64.digest


def test_every_one_of_several_layers_gets_the_login_though_all_began_without(tmp_path: Path) -> None:
    many = image(*(tar(Tar(name=b"%d" % number, data=b"x" * 5000)) for number in range(24)))
    with registry(tmp_path / "data") as running:
        running.push("library/many", "1", many, indexed=False)
        pin = Place(running.url).resolve("library/many:1", "linux/amd64")
    with registry(tmp_path / "data", auth="basic") as closed:
        place = Place(closed.url, environ=login(tmp_path, closed.host))
        put(place.store, many.manifest)
        assert str(place.fetch(pin)) == many.digest


def test_a_registry_with_tokens_is_asked_for_one_for_each_repository(data: Path, tmp_path: Path) -> None:
    with registry(data, auth="token") as closed:
        place = Place(closed.url)
        assert str(place.fetch(place.resolve("open/small:1"))) == AMD64.digest
        assert closed.tokens == [("repository:open/small:pull", None)]
        with pytest.raises(Unavailable, match="does not let us read it"):
            place.resolve("library/small:1")
        place = Place(closed.url, environ=login(tmp_path, closed.host))
        assert str(place.fetch(place.resolve("library/small:1"))) == AMD64.digest
        assert [scope for scope, told in closed.tokens if told] == ["repository:library/small:pull"]


def test_a_login_that_the_server_of_tokens_refuses_is_told(data: Path, tmp_path: Path) -> None:
    with registry(data, auth="token") as closed:
        place = Place(closed.url, environ=login(tmp_path, closed.host, "wr:ong"))
        with pytest.raises(Unavailable) as caught:
            place.resolve("library/small:1")
    assert caught.value.detail == (f"tried     {closed.url}: its server of tokens says 401 Unauthorized",)
    assert "wr:ong" not in said(caught.value)


def serve(fault: FaultServer, item: Image, *, skip: tuple[str, ...] = ()) -> None:
    """Serve an image from a server that misbehaves elsewhere."""
    kind = {"Content-Type": item.media_type}
    for name in ("1", item.digest):
        fault.serve(f"/v2/x/manifests/{name}", Reply(body=item.manifest, headers=kind))
    for digest, body in item.blobs.items():
        if digest not in skip:
            fault.serve(f"/v2/x/blobs/{digest}", Reply(body=body))


def layer_of(item: Image, number: int = 0) -> str:
    found: str = json.loads(item.manifest)["layers"][number]["digest"]
    return found


def test_a_registry_that_asks_for_a_token_from_what_is_no_url_is_told_with_what_it_said(fault: FaultServer) -> None:
    fault.serve(
        "/v2/x/manifests/1", Reply(status=401, headers={"WWW-Authenticate": 'Bearer realm="http://[bad/token"'})
    )
    with pytest.raises(Unavailable) as caught:
        Place(fault.url).resolve("x:1", "linux/amd64")
    assert caught.value.detail == (
        f"tried     {fault.url}: wants a token from what is no URL: realm http://[bad/token",
    )


def test_other_bytes_than_the_digest_are_corrupt_and_not_kept(fault: FaultServer) -> None:
    serve(fault, AMD64)
    place = Place(fault.url)
    pin = place.resolve("x:1", "linux/amd64")
    layer = layer_of(AMD64)
    wrong = bytes(len(AMD64.blobs[layer]))
    fault.serve(f"/v2/x/blobs/{layer}", Reply(body=wrong))
    with pytest.raises(Corrupt):
        place.fetch(pin)
    assert not place.store.has_blob(sha256(wrong))
    fault.serve(f"/v2/x/manifests/{AMD64.digest}", Reply(body=AMD64.manifest + b" "))
    with pytest.raises(Corrupt, match=f"x@{AMD64.digest}: a registry serves other bytes"):
        place.fetch(pin, reuse=False)


def test_a_registry_that_serves_other_bytes_is_told_and_the_next_one_used(server: Registry, fault: FaultServer) -> None:
    fault.serve(f"/v2/library/small/manifests/{AMD64.digest}", Reply(body=b"{}"))
    place = Place(fault.url, server.url)
    assert str(place.fetch(place.resolve("library/small:1"))) == AMD64.digest
    reference = f"library/small@{AMD64.digest}"
    assert f"another registry was used for {reference}: {fault.url}: served another manifest" in place.notes


def test_a_registry_that_serves_no_image_is_passed_over_and_told_when_it_is_the_only_one(
    server: Registry, fault: FaultServer
) -> None:
    fault.serve("/v2/library/small/manifests/1", Reply(body=b"<html>log in to this network</html>"))
    assert Place(fault.url, server.url).resolve("library/small:1").index is not None
    with pytest.raises(Corrupt, match="cannot be read as JSON"):
        Place(fault.url).resolve("library/small:1")


def test_a_layer_that_breaks_off_goes_on_with_a_new_token_when_the_old_one_has_run_out(fault: FaultServer) -> None:
    big = image(tar(Tar(name=b"noise", data=bytes(range(256)) * 4096)), packed=False)
    layer = layer_of(big)
    serve(fault, big)
    place = Place(fault.url)
    pin = place.resolve("x:1", "linux/amd64")
    fault.serve("/token?scope=repository%3Ax%3Apull", Reply(body=b'{"token":"one"}'), Reply(body=b'{"token":"two"}'))
    challenge = {"WWW-Authenticate": f'Bearer realm="{fault.url}/token"'}
    fault.serve(
        f"/v2/x/blobs/{layer}",
        Reply(status=401, headers=challenge),
        Reply(body=big.blobs[layer], cut=400_000),
        Reply(status=401, headers=challenge),
        Reply(body=big.blobs[layer]),
    )
    place.fetch(pin)
    asked = [request for request in fault.requests if layer in request.path]
    assert [request.headers.get("authorization") for request in asked] == [None, *["Bearer one"] * 2, "Bearer two"]
    assert asked[-1].headers["range"] == "bytes=400000-"


def test_a_token_is_not_sent_to_where_a_blob_is_redirected(fault: FaultServer) -> None:
    serve(fault, AMD64)
    layer = layer_of(AMD64)
    with FaultServer() as elsewhere:
        elsewhere.serve("/cdn?signed=1", Reply(body=AMD64.blobs[layer]))
        fault.serve("/token?scope=repository%3Ax%3Apull", Reply(body=b'{"access_token":"one"}'))
        fault.serve(
            f"/v2/x/blobs/{layer}",
            Reply(status=401, headers={"WWW-Authenticate": f'Bearer realm="{fault.url}/token"'}),
            Reply(status=307, headers={"Location": f"{elsewhere.url}/cdn?signed=1"}),
        )
        place = Place(fault.url)
        place.fetch(place.resolve("x:1", "linux/amd64"))
        assert [request.headers.get("authorization") for request in elsewhere.requests] == [None]


def test_what_is_in_the_store_is_fetched_again_only_when_that_is_asked(server: Registry, fault: FaultServer) -> None:
    place = Place(server.url)
    pin = place.resolve("library/small:1")
    place.fetch(pin)
    away = Place(fault.url, store=place.store)
    assert str(away.fetch(pin)) == AMD64.digest
    assert fault.requests == []
    with pytest.raises(UpstreamGone):
        away.fetch(pin, reuse=False)


def test_a_pin_that_somebody_edited_is_not_its_manifest(server: Registry) -> None:
    place = Place(server.url)
    pin = place.resolve("library/small:1")
    amd64, arm64 = pin.images
    mixed = type(amd64)(
        platform=amd64.platform, manifest=amd64.manifest, config=amd64.config, layers=(arm64.layers[1],)
    )
    edited = OciPin(repository=pin.repository, tag=pin.tag, index=pin.index, images=(mixed,))
    with pytest.raises(Corrupt, match="the pin does not hold what its manifest names") as caught:
        place.fetch(edited)
    assert caught.value.detail[0].endswith(f"layers {arm64.layers[1].digest.short}")


def test_a_platform_that_is_not_pinned_is_refused(server: Registry) -> None:
    place = Place(server.url)
    with pytest.raises(InputErrors) as caught:
        place.fetch(place.resolve("library/small:1", "linux/arm64"))
    assert "library/small is not pinned for linux/amd64\npinned    linux/arm64" in said(caught.value)


def test_offline_nothing_is_asked(server: Registry) -> None:
    place = Place(server.url)
    away = Registries(mirrors=[Mirror(url=server.url)], client=place.fetcher.client, offline=True)
    with pytest.raises(Unavailable, match="library/small:1 is not read offline"):
        resolve_oci(place.store, away, parse_reference("library/small:1"), BOTH)


def test_a_config_that_says_another_platform_than_the_index_is_told(fault: FaultServer) -> None:
    serve(fault, AMD64)
    wrong = {**AMD64.entry(), "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}}
    fault.serve("/v2/x/manifests/2", Reply(body=index(extra=[wrong])[1]))
    place = Place(fault.url)
    place.resolve("x:2", "linux/arm64")
    assert place.notes == ["x:2: the index says linux/arm64, the image's own config linux/amd64"]


def test_an_index_that_states_another_size_is_refused(fault: FaultServer) -> None:
    serve(fault, AMD64)
    fault.serve("/v2/x/manifests/2", Reply(body=index(extra=[{**AMD64.entry(), "size": 1}])[1]))
    with pytest.raises(Corrupt, match="another size than its index states"):
        Place(fault.url).resolve("x:2", "linux/amd64")


def test_without_a_registry_it_is_said_how_to_name_one(server: Registry) -> None:
    pin = Place(server.url).resolve("library/small:1")
    for ask in (lambda: Place().resolve("library/small:1"), lambda: Place().fetch(pin)):
        with pytest.raises(HostRefuses) as caught:
            ask()
        assert "DERIVE_MIRROR_OCI" in str(caught.value.hint)


def test_an_archive_does_where_no_registry_has_it(server: Registry, fault: FaultServer, tmp_path: Path) -> None:
    pin = Place(server.url).resolve("library/small:1")
    kept = tmp_path / "blobs/sha256"
    kept.mkdir(parents=True)
    for name, data in {**AMD64.blobs, AMD64.digest: AMD64.manifest}.items():
        (kept / name.partition(":")[2]).write_bytes(data)
    for place in (Place(fault.url), Place()):
        mirrors = FixedMirrors(archive_places=(ArchiveFolder(path=str(tmp_path)),))
        place.fetcher = Fetcher(store=place.store, mirrors=mirrors, progress=place, settings=QUICK)
        assert str(place.fetch(pin, reuse=False)) == AMD64.digest


def test_an_answer_without_an_end_is_refused(fault: FaultServer) -> None:
    fault.serve("/v2/x/manifests/1", Reply(body=bytes(5 << 20)))
    with pytest.raises(Unavailable) as caught:
        Place(fault.url).resolve("x:1")
    assert "an answer of more than 4194304 bytes" in caught.value.detail[0]
