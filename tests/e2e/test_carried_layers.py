# SPDX-License-Identifier: Apache-2.0
"""A layer in which streams of wheels stand as gzip members is read by every tool that an image meets."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.images.encoding import Encoding
from derive.images.layer import LayerDescriptor, write_layer
from derive.images.layout import export_archive, export_folder
from derive.images.modes import ModeTable
from derive.images.oci import ImageConfig, image_documents
from derive.store.local import LocalStore
from derive.trees.pack import NewFile
from support.archives import Zip, put, zipped
from support.carrying import wheel_of
from support.docker_engine import DockerEngine, ImageStore, default_binaries, docker_engine, why_unavailable
from support.layers import Given, archive, blob, tree
from support.require import skip_or_fail

BUSYBOX = Path("/bin/busybox")
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
NOISE = hashlib.shake_128(b"noise").digest(3 << 20)
LINES = b"".join(b"%d\n" % n for n in range(400_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """An image whose one layer carries streams: as a folder, as one file, and what is in it."""

    folder: Path
    file: Path
    manifest: str
    config: str
    layer: LayerDescriptor
    blob: bytes
    tar: bytes
    sums: dict[str, str]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Carried:
    if not BUSYBOX.exists():
        skip_or_fail(f"{BUSYBOX} is missing: install the package busybox-static")
    place = tmp_path_factory.mktemp("carried")
    contents = {b"bin/busybox": BUSYBOX.read_bytes(), b"lib/noise": NOISE, b"lib/lines": LINES, b"lib/old": LINES[1:]}
    given: dict[bytes, Given] = {
        **contents,
        b"bin/busybox": NewFile(executable=True, chunks=[contents[b"bin/busybox"]]),
        b"lib/old": b"patched\n" + LINES[1:],
        b"lib/empty": b"",
        b"lib/small": b"small\n",
        b"lib/zeros": bytes(2 << 20),
    }
    with LocalStore(place / "store") as store:
        wheel = wheel_of(store, zipped(*(Zip(name=name, data=data) for name, data in contents.items())))
        listing = tree(store, given)
        layer = write_layer(store, listing, ModeTable(), Encoding(name="gzip-members/2"), wheels=[wheel])
        host = f"linux/{ARCHITECTURE}"
        config = ImageConfig(command=("/bin/busybox",))
        documents = image_documents(config, [layer], platform=host, derivation=sha256(b"a derivation"))
        put(store, documents.config)
        manifest = put(store, documents.manifest)
        export_folder(store, manifest, name="carried", destination=place / "folder")
        export_archive(store, manifest, name="carried", destination=place / "carried.tar")
        return Carried(
            folder=place / "folder",
            file=place / "carried.tar",
            manifest=str(manifest),
            config=str(sha256(documents.config)),
            layer=layer,
            blob=blob(store, layer.blob),
            tar=archive(store, listing),
            sums={f"/{path.decode()}": entry.sha256.hex for path, entry in listing.files()},
        )


def tool(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        skip_or_fail(f"{name} is missing: install the package {package}")
    return found


def run(*argv: str | Path, data: bytes | None = None, **environment: str) -> bytes:
    ran = subprocess.run(argv, input=data, capture_output=True, check=False, env={**os.environ, **environment})
    assert ran.returncode == 0, ran.stderr.decode(errors="replace")
    return ran.stdout


def test_readers_of_gzip_see_one_stream_that_is_the_tar(image: Carried) -> None:
    assert gzip.decompress(image.blob) == image.tar
    assert gzip.GzipFile(fileobj=io.BytesIO(image.blob)).read() == image.tar
    assert run(tool("gzip", "gzip"), "-dc", data=image.blob) == image.tar
    with tarfile.open(fileobj=io.BytesIO(image.blob), mode="r:gz") as tar:
        assert len(tar.getmembers()) == len(image.sums) + 2


def test_skopeo_copies_the_image_and_unpacks_its_layer(image: Carried, tmp_path: Path) -> None:
    skopeo = [tool("skopeo", "skopeo"), "--insecure-policy", "copy", f"oci:{image.folder}:carried"]
    run(*skopeo, f"dir:{tmp_path}/dir")
    assert sha256((tmp_path / "dir/manifest.json").read_bytes()) == Digest.parse(image.manifest)
    run(*skopeo, f"docker-archive:{tmp_path}/docker.tar:carried:copied")
    with tarfile.open(tmp_path / "docker.tar") as copied:
        layer = copied.extractfile(f"{image.layer.diff_id.hex}.tar")
        assert layer is not None
        assert layer.read() == image.tar


@pytest.fixture(params=list(ImageStore), ids=lambda store: store.value, scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[DockerEngine]:
    reason = why_unavailable(default_binaries())
    if reason is not None:
        skip_or_fail(reason)
    with docker_engine(store=request.param, binaries=default_binaries()) as running:
        yield running


def checked(said: str) -> dict[str, str]:
    """What sha256sum says of each file."""
    return {path: digest for digest, path in (line.split() for line in said.splitlines())}


@pytest.mark.docker
def test_docker_loads_the_image_keeps_its_digest_and_unpacks_its_bytes(engine: DockerEngine, image: Carried) -> None:
    (loaded,) = engine.load(image.file)
    assert loaded.id == {ImageStore.CONTAINERD: image.manifest, ImageStore.OVERLAY2: image.config}[engine.store]
    ran = engine.run(loaded.reference, ["/bin/busybox", "sha256sum", *image.sums])
    assert (ran.stderr, checked(ran.stdout)) == ("", image.sums)


@pytest.mark.docker
def test_buildkit_builds_on_the_image(engine: DockerEngine, image: Carried, tmp_path: Path) -> None:
    buildx = default_binaries() / "bin/docker-buildx"
    if not buildx.exists():
        skip_or_fail(f"no docker-buildx in {default_binaries()}")
    (loaded,) = engine.load(image.file)
    # The older store's BuildKit takes no layout as a base, but what is loaded.
    base = "base" if engine.store is ImageStore.CONTAINERD else loaded.reference
    (tmp_path / "Dockerfile").write_text(
        f"FROM {base}\n"
        f'RUN ["/bin/busybox", "sh", "-c", "/bin/busybox sha256sum {" ".join(image.sums)} > /sums"]\n'
        'CMD ["/bin/busybox", "cat", "/sums"]\n'
    )
    context = f"base=oci-layout://{image.folder}@{image.manifest}"
    output = f"type=docker,name=localhost/on-carried-{engine.store.value}"
    argv = [str(buildx), "build", "--provenance=false", "--network=none", "--build-context", context]
    run(*argv, "--output", output, tmp_path, DOCKER_HOST=engine.url, HOME=str(tmp_path))
    ran = engine.run(f"localhost/on-carried-{engine.store.value}", ["/bin/busybox", "cat", "/sums"])
    assert checked(ran.stdout) == image.sums
