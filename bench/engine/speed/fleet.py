# SPDX-License-Identifier: Apache-2.0
"""What many nodes cost the operator's machine: connecting to them, asking what there is, a plan, an image for all.

Edge: loopback sockets, processes, a store. The nodes are fake, and named so: ``speed.fake_nodes``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from derive.canonical import Digest, sha256
from derive.deploy import preflight
from derive.deploy.bringing import Sought
from derive.deploy.distribute import distribute, missing
from derive.deploy.effects import Wanted, facts
from derive.deploy.kept import Kept
from derive.deploy.model import Served, Target
from derive.deploy.plan import Plan, make
from derive.deploy.reach import Reach, reach
from derive.deploy.seeing import look
from derive.deploy.stored_image import stored_image
from derive.errors import DeriveError
from derive.fabric.catalogue import load_fabric
from derive.fabric.examples import example
from derive.fabric.rule import SiteInput
from derive.fabric.site import Node
from derive.images.oci import CONFIG_TYPE, MANIFEST_TYPE
from derive.project import load_launching
from derive.recipes.load import load_recipe
from derive.recipes.resolve import resolve
from derive.render.bundle import bundle
from derive.render.judgement import Judgement
from derive.store.local import LocalStore
from speed.fake_nodes import fake_nodes
from speed.measure import CannotMeasureError
from speed.scratch import Bench
from speed.table import AtMost, Factor, Row, Time, median_time

GROUP = "many nodes"
FEW, MANY = 4, 32
_IMAGE_BYTES = 4 << 20
_RECIPE = "recipes/probe.toml"
_SECONDS = AtMost(Time(10_000_000_000))
_TEXTS = {
    "connect": "connecting to 32 fake nodes, eight at a time",
    "facts": "the facts of 32 fake nodes, each a program that runs",
    "plan": "a plan over 32 fake nodes: all asked for everything, and judged",
    "missing": "what each of 32 fake engines lacks of an image",
    "distribute": "4 MiB of an image to each of 32 fake nodes, four at a time",
}


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Measure each with four nodes and with 32, in turns."""
    if not (setting.root / _RECIPE).exists():
        note(f"fleet: not measured: this project has no {_RECIPE}")
        return []
    folder = setting.new_path("fleet")
    folder.mkdir()
    taken: dict[str, dict[int, list[int]]] = {name: {FEW: [], MANY: []} for name in _TEXTS}
    for number in range(setting.rounds):
        for count in (FEW, MANY) if number % 2 == 0 else (MANY, FEW):
            place = folder / f"{number}-{count}"
            place.mkdir()
            target = fleet_target(setting.root, count, str(place / "nodes"))
            for name, wall_ns in asyncio.run(_once(target, place)).items():
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


def fleet_target(root: Path, count: int, folder: str) -> Target:
    """Return what the recipe ``probe`` of a project is on any number of nodes, which no cabling has.

    What a launch says of its rank is that of rank 0 on all of them. ``folder`` is where nodes keep files.
    """
    files = load_launching(root)
    resolved = resolve(load_recipe(files, "probe"), "ring4")
    site = replace(example(files, "ring4"), example=False, name="fake", ssh_user="root", folder=folder)
    made = bundle(resolved, site, Digest("0" * 64), load_fabric(files), files, Judgement())
    nodes = tuple(
        Node(name=f"fake{rank}", rank=rank, address="192.0.2.1", interface="-", ssh_host=f"fake{rank}", gid_index="3")
        for rank in range(count)
    )
    launches = tuple(replace(made.launches[0], node=node.name, rank=node.rank, nodes=count) for node in nodes)
    served = Served(
        release="probe-0",
        release_digest=made.shape,
        recipe="probe",
        shape="ring4",
        image=made.image,
        shape_bundle=made.shape,
        launch_bundle=made.launch,
    )
    return Target(served=served, bundle=replace(made, site=replace(site, nodes=nodes, cables=()), launches=launches))


async def plan_of(reached: Reach, target: Target, kept: Kept) -> Plan:
    """Ask all nodes for everything that a deploy is judged by, and make the plan of one by it."""
    looked = await look(reached, target, kept, int(time.time()))
    _all_said(looked.failed)
    site, seen = SiteInput(site=target.bundle.site, file="site.toml", cable_numbers=()), looked.seen
    findings = preflight.judge(target, site, seen.machines, seen.containers, frozenset(), moves=seen.moves)
    return make(target, site, seen, (), frozenset(), findings=findings)


async def _once(target: Target, folder: Path) -> dict[str, int]:
    site = target.bundle.site
    taken: dict[str, int] = {}
    with LocalStore(folder / "store") as store:
        wanted = fleet_image(store)
        async with fake_nodes(site, folder) as (settings, _):
            began = time.monotonic_ns()
            async with reach(site, settings) as reached:
                nodes = reached.nodes
                taken["connect"] = time.monotonic_ns() - began
                began = time.monotonic_ns()
                _all_said(await nodes.each(lambda node: facts(node, Wanted(folders=("/",)))))
                taken["facts"] = time.monotonic_ns() - began
                began = time.monotonic_ns()
                await plan_of(reached, target, Kept(folder=folder / "kept"))
                taken["plan"] = time.monotonic_ns() - began
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


def fleet_image(store: LocalStore, layer_bytes: int = _IMAGE_BYTES) -> Sought:
    """Put an image into the store that has one layer, of bytes that nobody unpacks."""
    layer = hashlib.shake_128(b"layer").digest(layer_bytes)
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
