# SPDX-License-Identifier: Apache-2.0
"""Small images that are put into a store by hand: a busybox that runs, and layers of bytes that do not compress."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
from collections.abc import Sequence
from pathlib import Path

from derive.canonical import Digest, sha256
from derive.images.oci import CONFIG_TYPE, MANIFEST_TYPE
from derive.store.local import LocalStore

LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
_MEMBER = 1 << 20


def layer_tar(seed: int, size: int) -> bytes:
    """Return a layer of one file of bytes that do not compress."""
    return _tar({f"filler-{seed}": random.Random(seed).randbytes(size)})


def program_tar() -> bytes:
    """Return a layer that can be run."""
    return _tar({"bin/busybox": Path("/bin/busybox").read_bytes()})


def _tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.mtime = len(data), 0o755, 315532800
            layer.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def packed(data: bytes) -> bytes:
    """Return a layer's blob: a gzip member for each MiB, as images of our own have several."""
    pieces = (data[at : at + _MEMBER] for at in range(0, len(data), _MEMBER))
    return b"".join(gzip.compress(piece, compresslevel=0, mtime=0) for piece in pieces)


def documents(layers: Sequence[bytes], platform: str = "linux/amd64") -> tuple[bytes, bytes, dict[Digest, bytes]]:
    """Return an image's manifest, its config, and its layers' blobs."""
    streams = [packed(layer) for layer in layers]
    named = [(sha256(data), data) for data in streams]
    system, architecture = platform.split("/")
    config = json.dumps(
        {
            "os": system,
            "architecture": architecture,
            "config": {"Cmd": ["/bin/busybox", "echo", "it runs"], "Env": ["A=1"]},
            "rootfs": {"type": "layers", "diff_ids": [str(sha256(layer)) for layer in layers]},
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {"mediaType": CONFIG_TYPE, "digest": str(sha256(config)), "size": len(config)},
            "layers": [{"mediaType": LAYER_TYPE, "digest": str(digest), "size": len(data)} for digest, data in named],
        }
    ).encode()
    return manifest, config, dict(named)


def stored(store: LocalStore, layers: Sequence[bytes], platform: str = "linux/amd64") -> Digest:
    """Put an image into a store; returns its digest."""
    manifest, config, blobs = documents(layers, platform)
    for data in (*blobs.values(), config, manifest):
        with store.blob_writer() as writer:
            writer.write(data)
            writer.commit()
    return sha256(manifest)
