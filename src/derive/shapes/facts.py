# SPDX-License-Identifier: Apache-2.0
"""What holds for all nodes of a shape, and what a site says, as keys and values.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.fabric.site import Site
from derive.recipes.resolved import Resolved
from derive.shapes.model import Source, Value, Values
from derive.shapes.told import source_of

_TYPED = ("platform", "cabling", "transport", "tuning", "kernel-backend")


def shape_facts(resolved: Resolved) -> Values:
    """Return what a shape is beside what it tells nodes."""
    return dict(_shape_facts(resolved))


def site_facts(site: Site, file: str) -> Values:
    """Return every key of a site, filled in where its file leaves it out."""
    return {key: Value(text=text, sources=(Source(file=file, key=key, said=text),)) for key, text in _site_keys(site)}


def _site_keys(site: Site) -> Iterator[tuple[str, str]]:
    yield from (("name", site.name), ("cabling", site.cabling), ("ssh-user", site.ssh_user), ("home", site.home))
    yield from (("folder", site.folder), ("models", site.models))
    if site.images is not None:
        yield "images", site.images
    for rank, node in enumerate(site.nodes):
        at = f"nodes[{rank}]"
        yield from ((f"{at}.name", node.name), (f"{at}.address", node.address), (f"{at}.interface", node.interface))
        yield from ((f"{at}.ssh-host", node.ssh_host), (f"{at}.gid-index", node.gid_index))
        if node.traffic_class is not None:
            yield f"{at}.traffic-class", node.traffic_class
    for index, cable in enumerate(site.cables):
        at = f"cables[{index}]"
        yield f"{at}.between", " ".join(site.nodes[rank].name for rank in cable.ranks)
        yield f"{at}.ports", " ".join(map(str, cable.ports))
        for number, path in enumerate(cable.paths):
            below = f"{at}.paths[{number}]"
            yield f"{below}.subnet", path.subnet
            for key, texts in (
                ("devices", [end.device for end in path.ends]),
                ("interfaces", [end.interface for end in path.ends]),
                ("addresses", [end.address for end in path.ends]),
            ):
                yield f"{below}.{key}", " ".join(texts)


def _shape_facts(resolved: Resolved) -> Iterator[tuple[str, Value]]:
    file = f"recipes/{resolved.recipe}.toml"
    yield "recipe", Value(text=resolved.recipe, sources=(Source(file=file, key="", said=resolved.recipe),))
    yield "image", Value(text=resolved.image, sources=(Source(file=file, key="image", said=resolved.image),))
    said = {
        "platform": resolved.platform,
        "cabling": resolved.cabling,
        "transport": resolved.transport,
        "tuning": resolved.tuning,
        "kernel-backend": resolved.kernel_backend,
    }
    for key in _TYPED:
        text = said[key]
        if text is not None:
            yield key, _value(resolved, key, text)
    if resolved.model is not None:
        pin = resolved.model
        text = f"{pin.repository} {pin.revision or 'unpinned'}"
        table = resolved.document.get("model")
        set_name = table.get("set") if isinstance(table, Mapping) else None
        lock = Source(file=f"lock/{set_name}.lock.json", key=pin.name, said=text)
        yield "model", Value(text=text, sources=(*_value(resolved, "model.huggingface", pin.name).sources, lock))
    for key, fact in resolved.host.by_key().items():
        if fact is not None:
            text = str(fact).lower() if isinstance(fact, bool) else str(fact)
            yield f"host.{key}", _value(resolved, f"host.{key}", text)
    for need in resolved.needs:
        yield f"needs {need.capability}", Value(text="yes", sources=(Source(file=file, key=need.because, said=""),))


def _value(resolved: Resolved, path: str, text: str) -> Value:
    origin = resolved.origins.get(path)
    return Value(text=text, sources=() if origin is None else (source_of(origin, text),))
