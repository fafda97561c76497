# SPDX-License-Identifier: Apache-2.0
"""Launches for tests: those of this checkout's recipes at the example sites, and small ones that say anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from derive.canonical import Digest
from derive.fabric.catalogue import load_fabric
from derive.fabric.examples import example
from derive.fabric.site import Site
from derive.fabric.transports import Fabric
from derive.project import load_launching
from derive.recipes.load import Recipe, load_recipe
from derive.recipes.resolve import resolve
from derive.recipes.resolved import Container, GuardPhase, Ready, Resolved
from derive.render.bundle import Bundle, bundle
from derive.render.forms import labelled_files, plain_files
from derive.render.judgement import Judgement
from derive.render.launch import BindMount, Launch
from derive.render.templates import Templates
from support.cli import CHECKOUT

IMAGE = Digest("5a" * 32)
"""Stands for an image that nobody has derived."""

SHAPES = (
    ("ds41f", "tp4-ring"),
    ("ds41f", "tp3-triangle"),
    ("ds41f", "tp3-triangle-4k"),
    ("probe", "ring4"),
    ("probe", "triangle"),
)


@cache
def project_files() -> Mapping[str, bytes]:
    """Return the files of this checkout that decide launch files."""
    return load_launching(CHECKOUT)


@cache
def project_recipe(name: str) -> Recipe:
    """Return one of this checkout's recipes."""
    return load_recipe(project_files(), name)


@cache
def project_fabric() -> Fabric:
    """Return this checkout's transports and tuning profiles."""
    return load_fabric(project_files())


@cache
def project_shape(recipe: str, shape: str) -> Resolved:
    """Return a shape of one of this checkout's recipes."""
    return resolve(project_recipe(recipe), shape)


def example_site(resolved: Resolved, **changes: Any) -> Site:
    """Return the example of a shape's cabling, with changes."""
    return replace(example(project_files(), resolved.cabling), **changes)


def rendered(resolved: Resolved, site: Site | None = None, files: Mapping[str, bytes] | None = None) -> Bundle:
    """Render a shape at a site, else at the example of its cabling, from the image that nobody has derived."""
    place = example_site(resolved) if site is None else site
    return bundle(resolved, place, IMAGE, project_fabric(), files or project_files(), Judgement())


def small_launch(**changes: Any) -> Launch:
    """Return a launch that says a little of everything, with changes."""
    launch = Launch(
        recipe="small",
        shape="pair",
        node="spark1",
        rank=0,
        nodes=3,
        name="small",
        image=str(IMAGE),
        reference=f"registry.example:5000/derive/small@{IMAGE}",
        entrypoint=("/usr/bin/serve", "now"),
        arguments=("/model", "--rows", "16", "--config", '{"a":"b c"}', "--quick"),
        environment={"EMPTY": "", "PLAIN": "1", "SPACED": "a b"},
        mounts=(
            BindMount(source="/home/operator/models", target="/model", read_only=True),
            BindMount(source="/var/lib/derive/cache/5a5a5a5a5a5a", target="/cache", read_only=False),
        ),
        container=Container(
            ipc="host",
            gpus="all",
            devices=("/dev/infiniband:/dev/infiniband:rwm",),
            add_capabilities=("IPC_LOCK",),
            ulimits={"memlock": "-1:-1", "stack": "67108864:67108864"},
            security_options=("label=disable", "seccomp=unconfined"),
            shared_memory_bytes=2**34,
            memory_bytes=112 * 2**30,
            memory_swap_bytes=112 * 2**30,
            device_cgroup_rules=("c 226:* rw",),
        ),
        labels={"io.derive.node": "spark1"},
        slice="derive-small.slice",
        folder="/var/lib/derive/small/current",
        guard=(
            GuardPhase(phase="startup", floor_bytes=5 * 2**30, interval="0.25", wait_seconds=120),
            GuardPhase(phase="steady", floor_bytes=3 * 2**30, interval="2"),
        ),
        port=8000,
        ready=Ready(path="/health", timeout_seconds=60),
    )
    return replace(launch, **changes)


def write_files(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write files below a folder and return it."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def node_files(launch: Launch, site: Site, templates: Templates) -> dict[str, bytes]:
    """Return a node's files by their path below its folder, sorted; the manifest is not among them."""
    return dict(sorted({**labelled_files(launch, templates), **plain_files(launch, site, templates)}.items()))
