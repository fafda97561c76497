# SPDX-License-Identifier: Apache-2.0
"""What one node is told, as data: every launch file says this and nothing else.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derive.recipes.resolved import Container, GuardPhase, Ready


@dataclass(frozen=True, slots=True, kw_only=True)
class BindMount:
    """A mount with its source on the node."""

    source: str
    target: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One node's part of a launch.

    ``image`` is the manifest's digest, ``reference`` what Docker is given (it ends in that digest). The process gets
    ``entrypoint`` (none: the image's own), then ``arguments``, exactly. ``slice`` is the systemd slice in which the
    container runs, and the guard looks at. ``folder`` is where these files lie on the node.
    """

    recipe: str
    shape: str
    node: str
    rank: int
    nodes: int
    name: str
    image: str
    reference: str
    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[BindMount, ...]
    container: Container
    labels: Mapping[str, str]
    slice: str
    folder: str
    guard: tuple[GuardPhase, ...]
    port: int
    ready: Ready
