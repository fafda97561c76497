# SPDX-License-Identifier: Apache-2.0
"""Pinned bytes of layers and images: a change here needs a new builder version or a new encoding."""

from __future__ import annotations

import hashlib
import json

from derive.canonical import sha256
from derive.images.encoding import Encoding
from derive.images.layer import write_layer
from derive.images.modes import ModeTable, Rule
from derive.images.oci import Descriptor, ImageConfig, image_documents, index
from derive.store.memory import MemoryStore
from derive.trees.listing import Symlink
from derive.trees.pack import NewFile
from support.archives import Zip, zipped
from support.carrying import wheel_of
from support.golden import check_golden
from support.layers import FIELD, Given, archive, blob, tree

ODD: dict[bytes, Given] = {
    "é/ü".encode(): b"UTF-8",
    b"\xff\xfe": b"not UTF-8",
    b"/".join(letter * 110 for letter in (b"a", b"b", b"c")): b"long",
    b"prefix/" * 14 + b"name": b"split",
    b"link": Symlink(b"t" * 150),
    b"odd": Symlink(b"\xe9"),
}
LARGE: dict[bytes, Given] = {
    b"large": hashlib.shake_128(b"large").digest(2_500_000),
    b"zeros": bytes(3_000_000),
    **{b"small/%04d" % n: hashlib.shake_128(b"%d" % n).digest(n * 37 % 9000) for n in range(300)},
}
MODES = ModeTable.of([Rule(path=b"tmp", mode=0o1777), Rule(path=b"usr/bin/tool", mode=0o550, uid=1000, gid=65534)])


def test_layers_have_the_digests_that_they_had() -> None:
    store = MemoryStore()
    rows = {}
    cases: tuple[tuple[str, dict[bytes, Given], ModeTable], ...] = (
        ("empty", {}, ModeTable()),
        ("field", FIELD, MODES),
        ("odd", ODD, ModeTable()),
        ("large", LARGE, ModeTable()),
    )
    for name, given, modes in cases:
        for level in (1, 6, 9, 12):
            layer = write_layer(store, tree(store, given), modes, Encoding(level=level))
            rows[f"{name}, level {level}"] = layer.to_document()
    check_golden("layers/layers.json", json.dumps(rows, indent=1, sort_keys=True) + "\n")


STREAM = hashlib.shake_128(b"stream").digest(200) * 500
"""What a wheel has."""


def test_a_layer_with_carried_patched_and_generated_files_has_the_digest_that_it_had() -> None:
    store = MemoryStore()
    stored = [STREAM[at : at + 50_000] for at in (0, 50_000)]
    # Two stored blocks: a deflate stream whose bytes depend on no compressor.
    stream = b"".join(
        bytes([at]) + len(part).to_bytes(2, "little") + (len(part) ^ 0xFFFF).to_bytes(2, "little") + part
        for at, part in enumerate(stored)
    )
    it = wheel_of(store, zipped(*(Zip(name=name, data=STREAM, packed=stream) for name in (b"kept", b"moved"))))
    given: dict[bytes, Given] = {
        b"lib/kept": STREAM,
        b"lib/small": b"small\n" * 40,
        b"lib/moved": NewFile(executable=True, chunks=[STREAM]),
        b"lib/patched": b"# patched\n" + STREAM,
        b"lib/generated": bytes(range(256)) * 300,
    }
    listing = tree(store, given)
    rows = {}
    for level in (1, 6):
        layer = write_layer(store, listing, ModeTable(), Encoding(name="gzip-members/2", level=level), wheels=[it])
        assert blob(store, layer.blob).count(stream) == 2
        rows[f"level {level}"] = layer.to_document()
    check_golden("layers/carried.json", json.dumps(rows, indent=1, sort_keys=True) + "\n")


def test_headers_have_the_bytes_that_they_had() -> None:
    store = MemoryStore()
    data = archive(store, tree(store, {**FIELD, **ODD, b"usr/share/noise": b"none"}), MODES)
    lines = []
    for at in range(0, len(data), 32):
        row = data[at : at + 32]
        if row.strip(b"\0"):
            shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
            lines.append(f"{at:06x}  {row.hex()}  {shown}".rstrip())
    check_golden("layers/headers.hex", "\n".join([*lines, f"{len(data):06x}"]) + "\n")


def test_image_documents_have_the_bytes_that_they_had() -> None:
    store = MemoryStore()
    layer = write_layer(store, tree(store, FIELD), MODES, Encoding())
    config = ImageConfig(
        environment={"PATH": "/usr/bin", "LANG": "C.UTF-8"},
        entrypoint=("/usr/bin/tool",),
        user="1000",
        working_folder="/",
        labels={"b": "2", "a": "é"},
        stop_signal="SIGTERM",
        exposed_ports=("8000/tcp",),
        annotations={"z": "1", "y": "2"},
    )
    lines = []
    for platform in ("linux/amd64", "linux/arm64"):
        documents = image_documents(config, [layer], platform=platform, derivation=sha256(b"a derivation"))
        manifest = Descriptor(media_type="m", digest=documents.digest, size=len(documents.manifest))
        found = index(manifest, platform={"os": "linux", "architecture": platform[6:]}, name="probe")
        lines += [platform, str(documents.digest)]
        lines += [data.decode() for data in (documents.config, documents.manifest, found)]
    check_golden("layers/image.txt", "\n".join(lines) + "\n")
