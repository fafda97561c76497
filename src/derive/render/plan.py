# SPDX-License-Identifier: Apache-2.0
"""From a resolved shape, a site and an image to what each node is told.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from derive.canonical import Digest
from derive.fabric.environment import node_environment
from derive.fabric.site import Site
from derive.recipes.arguments import words
from derive.recipes.resolved import Mount, Resolved
from derive.render.launch import BindMount, Launch

if TYPE_CHECKING:
    from derive.fabric.transports import Fabric

RECIPE_LABEL = "io.derive.recipe"
SHAPE_LABEL = "io.derive.shape"
NODE_LABEL = "io.derive.node"
RANK_LABEL = "io.derive.rank"
SHAPE_BUNDLE_LABEL = "io.derive.shape-bundle"
"""The digest of the shape bundle that a container was started from."""
LAUNCH_BUNDLE_LABEL = "io.derive.launch-bundle"
"""The digest of the launch bundle: a container that has another one runs something else."""

LAUNCH_TARGET = "/run/derive/launch"
"""Where a container finds the files that it was started by."""


def launches(resolved: Resolved, site: Site, image: Digest, fabric: Fabric) -> tuple[Launch, ...]:
    """Return what each node is told, in order of rank; the labels that name bundles are not there yet."""
    shared = words(resolved)
    return tuple(_launch(resolved, site, image, fabric, shared, node.rank) for node in site.nodes)


def labelled(launch: Launch, labels: Mapping[str, str]) -> Launch:
    """Return a launch with further labels."""
    return replace(launch, labels={**launch.labels, **labels})


def _launch(
    resolved: Resolved, site: Site, image: Digest, fabric: Fabric, shared: tuple[str, ...], rank: int
) -> Launch:
    node = site.nodes[rank]
    return Launch(
        recipe=resolved.recipe,
        shape=resolved.shape,
        node=node.name,
        rank=rank,
        nodes=len(site.nodes),
        name=resolved.service,
        image=str(image),
        reference=_reference(resolved, site, image),
        entrypoint=resolved.entrypoint,
        arguments=(*shared, *node_words(resolved, site, rank)),
        environment={**resolved.environment, **node_environment(resolved, site, rank, fabric)},
        mounts=tuple(_mounts(resolved, site, image)),
        container=resolved.container,
        labels={
            RECIPE_LABEL: resolved.recipe,
            SHAPE_LABEL: resolved.shape,
            NODE_LABEL: node.name,
            RANK_LABEL: str(rank),
        },
        slice=f"derive-{resolved.service}.slice",
        folder=_folder(resolved, site),
        guard=resolved.guard,
        port=resolved.port,
        ready=resolved.ready,
    )


def _reference(resolved: Resolved, site: Site, image: Digest) -> str:
    """Return what Docker finds the image by, in either kind of image store."""
    return f"{site.images}/{resolved.image}@{image}"


def node_words(resolved: Resolved, site: Site, rank: int) -> Iterator[str]:
    """Yield the words of the options that each node has of its own."""
    if resolved.schema is None:
        return
    yield from ("--node-rank", str(rank), "--master-addr", site.nodes[0].address)
    if resolved.master_port is not None:
        yield from ("--master-port", str(resolved.master_port))
    if rank != 0:
        yield "--headless"


def _mounts(resolved: Resolved, site: Site, image: Digest) -> Iterator[BindMount]:
    for mount in resolved.mounts:
        yield BindMount(source=_source(mount, site), target=mount.target, read_only=mount.read_only)
    if resolved.cache is not None:
        # What is compiled at a first start holds for one image alone.
        yield BindMount(source=f"{site.folder}/cache/{image.short}", target=resolved.cache, read_only=False)
    yield BindMount(source=_folder(resolved, site), target=LAUNCH_TARGET, read_only=True)


def _source(mount: Mount, site: Site) -> str:
    for name, value in (("home", site.home), ("folder", site.folder), ("models", site.models)):
        if mount.source.startswith(f"{{{name}}}"):
            return value + mount.source.removeprefix(f"{{{name}}}")
    return mount.source


def _folder(resolved: Resolved, site: Site) -> str:
    return f"{site.folder}/{resolved.service}/current"
