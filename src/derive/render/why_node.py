# SPDX-License-Identifier: Apache-2.0
"""Why one node is told what no other is: the value that a site gives it, and where in the site's file that stands.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from derive.fabric.environment import node_settings
from derive.fabric.site import Site
from derive.recipes.resolved import Resolved
from derive.render.plan import node_words

if TYPE_CHECKING:
    from derive.fabric.transports import Fabric


def why_node(resolved: Resolved, site: Site, site_file: str, fabric: Fabric, node: str, key: str) -> tuple[str, ...]:
    """Return the value of an option or variable that this node alone has, as lines; none where all have the same.

    ``key`` is as people name it: ``VLLM_HOST_IP``, ``environment.VLLM_HOST_IP``, ``node-rank``, ``--node-rank``.
    """
    rank = next(one.rank for one in site.nodes if one.name == node)
    return tuple(_lines(resolved, site, site_file, fabric, rank, key.removeprefix("--")))


def _lines(resolved: Resolved, site: Site, site_file: str, fabric: Fabric, rank: int, key: str) -> Iterator[str]:
    name = site.nodes[rank].name
    for variable, sited in node_settings(resolved, site, rank, fabric, site_file).items():
        if key in (variable, f"environment.{variable}"):
            yield f"environment.{variable} = {sited.value}  on {name}"
            yield f"  {'written':<11}{sited.origin.file}: {sited.origin.key}"
            yield f"  {'meaning':<11}{sited.origin.doc}"
    for word, value in pairwise((*node_words(resolved, site, rank), "")):
        option = word.removeprefix("--")
        if word.startswith("--") and key in (option, f"arguments.{option}"):
            yield f"arguments.{option} = {value or 'true'}  on {name}"
            yield f"  {'written':<11}{site_file}: nodes"
