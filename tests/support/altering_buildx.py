# SPDX-License-Identifier: Apache-2.0
"""Stands in for the plugin buildx: runs the real one, then makes of the layout that it wrote another, whole image.

Every digest of the result is right. Run as a program: the real plugin, what to alter, then the plugin's arguments.
Edge: starts a program, writes files.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

FILE = "usr/share/hello/greeting"
ADDED = "usr/share/hello/added"

Member: TypeAlias = tuple[tarfile.TarInfo, bytes]


def altered(what: str, members: list[Member]) -> Iterator[Member]:
    """Yield a layer's members with one thing changed."""
    for entry, data in members:
        if what == "removed" and entry.name == FILE:
            continue
        if what == "mode" and entry.name == FILE:
            entry.mode = 0o600
        yield entry, data.swapcase() if what == "contents" and entry.name == FILE else data
    name = {"added": ADDED, "whiteout": "usr/share/hello/.wh.run"}.get(what)
    if name is not None:
        yield tarfile.TarInfo(name), b""


def members_of(data: bytes) -> list[Member]:
    """Read a layer."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return [(entry, file.read() if (file := tar.extractfile(entry)) else b"") for entry in tar]


def layer_of(members: Iterator[Member]) -> bytes:
    """Write a layer."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry, data in members:
            tar.addfile(entry, io.BytesIO(data))
    return written.getvalue()


def alter(layout: Path, what: str) -> None:
    """Change one thing in the image of a layout, and all digests above it."""
    blobs = layout / "blobs" / "sha256"

    def read(descriptor: dict[str, Any]) -> bytes:
        return (blobs / str(descriptor["digest"]).removeprefix("sha256:")).read_bytes()

    def write(descriptor: dict[str, Any], data: bytes) -> None:
        key = hashlib.sha256(data).hexdigest()
        (blobs / key).write_bytes(data)
        descriptor.update(digest=f"sha256:{key}", size=len(data))

    index = json.loads((layout / "index.json").read_bytes())
    manifest = json.loads(read(index["manifests"][0]))
    config = json.loads(read(manifest["config"]))
    if what == "user":
        config["config"]["User"] = "0:0"
    elif what == "platform":
        config["architecture"] = "riscv64"
    for number, layer in enumerate(manifest["layers"]):
        members = members_of(gzip.decompress(read(layer)))
        if any(entry.name == FILE for entry, _ in members):
            tar = layer_of(altered(what, members))
            config["rootfs"]["diff_ids"][number] = f"sha256:{hashlib.sha256(tar).hexdigest()}"
            write(layer, gzip.compress(tar))
    write(manifest["config"], json.dumps(config).encode())
    write(index["manifests"][0], json.dumps(manifest).encode())
    (layout / "index.json").write_text(json.dumps(index))


def main(real: str, what: str, arguments: list[str]) -> int:
    """Run the real plugin, and alter what it built."""
    status = subprocess.call([real, *arguments])
    if status == 0 and "--output" in arguments:
        output = arguments[arguments.index("--output") + 1]
        (folder,) = (Path(word.removeprefix("dest=")) for word in output.split(",") if word.startswith("dest="))
        alter(folder, what)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
