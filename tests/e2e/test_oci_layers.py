# SPDX-License-Identifier: Apache-2.0
"""Layers laid upon each other give the very tree that a real Docker engine makes of them, on both of its stores."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from docker.errors import DockerException, ImageLoadError

from derive.errors import InputErrors
from derive.oci.tree import oci_tree
from derive.store.memory import MemoryStore
from support.archives import Tar, contents, folder, hardlink, put, symlink, tar
from support.docker_engine import DockerEngine, ImageStore, default_binaries, docker_engine, why_unavailable
from support.oci_registry import Image, image
from support.require import skip_or_fail

pytestmark = pytest.mark.docker

MADE_BY_THE_ENGINE = {".dockerenv", "dev", "etc", "proc", "sys"}


def file(name: bytes, data: bytes = b"", mode: int = 0o644) -> Tar:
    return Tar(name=name, data=data or name, mode=mode)


RUN = file(b"run", mode=0o755)
OPAQUE = Tar(name=b"o/.wh..wh..opq")
FOLDER = (folder(b"o"), file(b"o/below"), folder(b"o/s"), file(b"o/s/below"))
LINK = (folder(b"usr"), file(b"usr/x"), symlink(b"lib", b"usr"))

SAME = {
    "replaced and added": (tar(file(b"a"), *FOLDER), tar(file(b"a", b"new"), file(b"o/b"), file(b"caf\xc3\xa9"))),
    "taken away": (tar(file(b"a"), *FOLDER), tar(file(b".wh.a"), file(b"o/.wh.s"), file(b".wh.never"))),
    "taken away twice": (tar(file(b"a")), tar(file(b".wh.a")), tar(file(b".wh.a")), tar(file(b"a", b"back"))),
    "taken away and back": (tar(*FOLDER), tar(file(b".wh.o")), tar(folder(b"o"), file(b"o/above"))),
    "taken away and back at once": (tar(file(b"a")), tar(file(b".wh.a"), file(b"a", b"new"))),
    "opaque first": (tar(*FOLDER), tar(folder(b"o"), OPAQUE, folder(b"o/s"), file(b"o/s/above"))),
    "opaque last": (tar(*FOLDER), tar(folder(b"o"), folder(b"o/s"), file(b"o/s/above"), OPAQUE)),
    "opaque alone": (tar(*FOLDER), tar(OPAQUE)),
    "folder for link": (tar(*LINK), tar(folder(b"lib"), file(b"lib/y"))),
    "implied folder for link": (tar(*LINK), tar(file(b"lib/y"))),
    "whiteout below a link": (tar(*LINK), tar(file(b"lib/.wh.x"))),
    "whiteout below nothing": (tar(), tar(file(b"no/.wh.x"))),
    "implied folder for file": (tar(file(b"o")), tar(file(b"o/x"))),
    "file for folder": (tar(*FOLDER), tar(file(b"o"))),
    "link for folder": (tar(*FOLDER), tar(symlink(b"o", b"usr"))),
    "through its own link": (tar(*LINK, file(b"lib/y"), symlink(b"up", b"../../usr"), file(b"up/z")),),
    "hard link": (tar(file(b"a"), hardlink(b"h", b"a"), hardlink(b"i", b"h")), tar(file(b"a", b"new"))),
    "hard link through a link": (tar(*LINK, hardlink(b"h", b"lib/x")),),
    "no whiteouts": (tar(file(b"a.wh.b"), file(b"o/c.wh.")),),
    "metadata of aufs": (tar(file(b".wh..wh.aufs"), file(b"a")),),
}
"""Layers that engines take, and lay alike."""

REFUSED = {
    "hard link to a lower layer": (tar(file(b"a")), tar(hardlink(b"b", b"a"))),
    "whiteout of its own file": (tar(file(b"a")), tar(file(b"a", b"new"), file(b".wh.a"))),
    "whiteout of its own folder": (tar(*FOLDER), tar(folder(b"o"), file(b".wh.o"))),
    "below a whiteout's folder": (tar(*FOLDER), tar(file(b".wh.o"), file(b"o/above"))),
    "below a file": (tar(file(b"a"), file(b"a/x")),),
}
"""Layers that no engine takes."""


@pytest.fixture(params=list(ImageStore), ids=lambda store: store.value, scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[DockerEngine]:
    reason = why_unavailable(default_binaries())
    if reason is not None:
        skip_or_fail(reason)
    with docker_engine(store=request.param, binaries=default_binaries()) as running:
        yield running


def archive(item: Image) -> bytes:
    """Return an image as `docker load` reads it."""
    place = {name: f"blobs/sha256/{name.partition(':')[2]}" for name in (*item.blobs, item.digest)}
    manifest = json.loads(item.manifest)
    entry = {**item.entry(), "annotations": {"io.containerd.image.name": "localhost/layers:1"}}
    older = {
        "Config": place[manifest["config"]["digest"]],
        "RepoTags": ["localhost/layers:1"],
        "Layers": [place[layer["digest"]] for layer in manifest["layers"]],
    }
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(),
        "manifest.json": json.dumps([older]).encode(),
        **{place[name]: data for name, data in item.blobs.items()},
        place[item.digest]: item.manifest,
    }
    return tar(*(Tar(name=name.encode(), data=data) for name, data in files.items()))


def of_engine(engine: DockerEngine, loaded: str) -> dict[bytes, object]:
    """Return the tree that a container of an image has, as plain values."""
    container = engine.client.containers.create(loaded, ["/run"], network_mode="none")
    exported = io.BytesIO(b"".join(cast("Iterator[bytes]", container.export())))
    container.remove()
    found: dict[bytes, object] = {}
    with tarfile.open(fileobj=exported) as stream:
        for member in stream:
            path = member.name.rstrip("/")
            if path.split("/")[0] in MADE_BY_THE_ENGINE:
                continue
            key = path.encode("utf-8", "surrogateescape")
            if member.isdir():
                found[key] = "/"
            elif member.issym():
                found[key] = b"-> " + member.linkname.encode()
            else:
                inner = stream.extractfile(member)
                assert inner is not None
                data = inner.read()
                found[key] = (data, "x") if member.mode & 0o100 else data
    return found


def load(engine: DockerEngine, item: Image, folder: Path) -> str:
    (folder / "image.tar").write_bytes(archive(item))
    (loaded,) = engine.load(folder / "image.tar")
    return loaded.reference


def ours(item: Image) -> dict[bytes, object]:
    store = MemoryStore()
    for data in item.blobs.values():
        put(store, data)
    return contents(store, oci_tree(store, put(store, item.manifest)).listing)


@pytest.mark.parametrize("case", SAME)
def test_an_engine_makes_the_same_tree_of_the_layers(engine: DockerEngine, tmp_path: Path, case: str) -> None:
    item = image(tar(RUN), *SAME[case])
    assert ours(item) == of_engine(engine, load(engine, item, tmp_path))


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_engine_takes_is_refused(engine: DockerEngine, tmp_path: Path, case: str) -> None:
    item = image(tar(RUN), *REFUSED[case])
    with pytest.raises(InputErrors, match="problem"):
        ours(item)
    with pytest.raises((DockerException, ImageLoadError)):
        load(engine, item, tmp_path)
