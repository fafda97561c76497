# SPDX-License-Identifier: Apache-2.0
"""What many nodes cost the operator's machine: connecting to them, asking for their facts, bringing an image to all.

Edge: loopback sockets, processes, a store. The nodes are fake, and named so: ``speed.fake_nodes``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from derive.canonical import sha256
from derive.deploy.bringing import Sought
from derive.deploy.distribute import distribute, missing
from derive.deploy.effects import Wanted, facts
from derive.deploy.remote import connect
from derive.deploy.stored_image import stored_image
from derive.errors import DeriveError
from derive.fabric.site import Node, Site
from derive.images.oci import CONFIG_TYPE, MANIFEST_TYPE
from derive.store.local import LocalStore
from speed.fake_nodes import fake_nodes
from speed.measure import CannotMeasureError
from speed.scratch import Bench
from speed.table import AtMost, Factor, Row, Time, median_time

GROUP = "many nodes"
FEW, MANY = 4, 32
_IMAGE_BYTES = 4 << 20
_SECONDS = AtMost(Time(10_000_000_000))
_TEXTS = {
    "connect": "connecting to 32 fake nodes, eight at a time",
    "facts": "the facts of 32 fake nodes, each a program that runs",
    "missing": "what each of 32 fake engines lacks of an image",
    "distribute": "4 MiB of an image to each of 32 fake nodes, four at a time",
}


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Measure each with four nodes and with 32, in turns."""
    del note
    folder = setting.new_path("fleet")
    folder.mkdir()
    taken: dict[str, dict[int, list[int]]] = {name: {FEW: [], MANY: []} for name in _TEXTS}
    for number in range(setting.rounds):
        for count in (FEW, MANY) if number % 2 == 0 else (MANY, FEW):
            place = folder / f"{number}-{count}"
            place.mkdir()
            for name, wall_ns in asyncio.run(_once(_site(count), place)).items():
                taken[name][count].append(wall_ns)
    return [
        Row(
            group=GROUP,
            what=what,
            amount=median_time(taken[name][MANY]),
            beside="four of them",
            other=median_time(taken[name][FEW]),
            target=_SECONDS,
            ratio_target=AtMost(Factor(2 * MANY / FEW)),
            samples=tuple(taken[name][MANY]),
        )
        for name, what in _TEXTS.items()
    ]


def _site(count: int) -> Site:
    """Return a site of any number of nodes, which no cabling has."""
    nodes = tuple(
        Node(name=f"fake{rank}", rank=rank, address="192.0.2.1", interface="-", ssh_host=f"fake{rank}", gid_index="3")
        for rank in range(count)
    )
    return Site(
        name="fake",
        cabling="ring4",
        ssh_user="root",
        home="/",
        folder="/var/lib/derive",
        models="/models",
        images="127.0.0.1:5170/derive",
        nodes=nodes,
        cables=(),
    )


async def _once(site: Site, folder: Path) -> dict[str, int]:
    taken: dict[str, int] = {}
    with LocalStore(folder / "store") as store:
        wanted = _image(store)
        async with fake_nodes(site, folder) as (settings, _):
            began = time.monotonic_ns()
            async with connect(site, settings) as nodes:
                taken["connect"] = time.monotonic_ns() - began
                began = time.monotonic_ns()
                _all_said(await nodes.each(lambda node: facts(node, Wanted(folders=("/",)))))
                taken["facts"] = time.monotonic_ns() - began
                began = time.monotonic_ns()
                _all_said(await missing(nodes, wanted, store))
                taken["missing"] = time.monotonic_ns() - began
                began = time.monotonic_ns()
                await distribute(nodes, wanted, store, lambda _node, _text: None)
                taken["distribute"] = time.monotonic_ns() - began
    return taken


def _all_said(answers: Mapping[str, object]) -> None:
    for name, answer in answers.items():
        if isinstance(answer, DeriveError):
            raise CannotMeasureError(f"{name}: {answer.message}", detail=answer.detail)


def _image(store: LocalStore) -> Sought:
    """Put an image into the store that has one layer, of bytes that nobody unpacks."""
    layer = hashlib.shake_128(b"layer").digest(_IMAGE_BYTES)
    rootfs = {"type": "layers", "diff_ids": [str(sha256(layer))]}
    config = json.dumps({"os": "linux", "architecture": "amd64", "rootfs": rootfs}).encode()

    def descriptor(media_type: str, data: bytes) -> dict[str, object]:
        return {"mediaType": media_type, "digest": str(sha256(data)), "size": len(data)}

    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": descriptor(CONFIG_TYPE, config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
        }
    ).encode()
    for data in (layer, config, manifest):
        with store.blob_writer() as writer:
            writer.write(data)
            writer.commit()
    image = stored_image(store, sha256(manifest))
    return Sought(image=image, repository="127.0.0.1:5170/derive/fake", port=5170)
