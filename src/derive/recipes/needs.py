# SPDX-License-Identifier: Apache-2.0
"""Which capabilities a shape needs of its image, and what in the shape makes it need them.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator

from derive.canonical import Json
from derive.fabric.transports import Fabric
from derive.recipes import transport
from derive.recipes.forms import texts
from derive.recipes.merge import KeyPath, Tables, find
from derive.recipes.resolved import Need
from derive.recipes.values import plain_text
from derive.toml import key_path

_ANY = "*"

_VLLM: tuple[tuple[KeyPath, Json, tuple[str, ...]], ...] = (
    (("cabling",), "triangle", ("tp3-padding",)),
    (("memory", "engram"), "disk", ("engram-disk",)),
    (("memory", "engram"), "memory", ("engram-memory",)),
    (("arguments", "speculative-config", "method"), "dspark", ("dspark",)),
    (("arguments", "speculative-config", "enable_adaptive_verification"), True, ("dspark-adaptive",)),
    (("arguments", "enable-prefix-caching"), True, ("prefix-cache",)),
    (("arguments", "async-scheduling"), True, ("async-scheduling",)),
    (("arguments", "hf-overrides", "head_dtype"), _ANY, ("head-dtype",)),
)
"""What a shape that serves by vLLM needs where a key has a value, or any."""


def needs(tables: Tables, typed_at: str, fabric: Fabric) -> tuple[Need, ...]:
    """Return what a merged shape needs, each capability once, by name; ``typed_at`` is where its own list stands."""
    found: dict[str, Need] = {}
    for need in (*_own(tables, typed_at), *transport.needs(fabric, tables)):
        found.setdefault(need.capability, need)
    return tuple(found[name] for name in sorted(found))


def _own(tables: Tables, typed_at: str) -> Iterator[Need]:
    for name in texts(tables.get("needs")):
        yield Need(capability=name, because=typed_at)
    if tables.get("guard"):
        yield Need(capability="memory-guard", because="guard")
    if find(tables, ("service", "program")) != "vllm":
        return
    for path, value, capabilities in _VLLM:
        found = find(tables, path)
        if found is not None and value in (found, _ANY):
            because = f"{key_path(path)} = {plain_text(found)}"
            yield from (Need(capability=name, because=because) for name in capabilities)
