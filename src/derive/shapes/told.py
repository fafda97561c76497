# SPDX-License-Identifier: Apache-2.0
"""From a launch to what it tells a node, key by key, each with where it comes from.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from derive.canonical import Json, sha256
from derive.fabric.environment import Sited
from derive.fabric.site import Site
from derive.importing.argv import parse_arguments
from derive.recipes.forms import is_table
from derive.recipes.resolved import Origin, Resolved
from derive.recipes.values import plain_text
from derive.render.launch import BindMount, Launch
from derive.render.plan import (
    LAUNCH_BUNDLE_LABEL,
    LAUNCH_TARGET,
    NODE_LABEL,
    RANK_LABEL,
    RECIPE_LABEL,
    SHAPE_BUNDLE_LABEL,
    SHAPE_LABEL,
)
from derive.shapes.model import Section, Source, Told, Value, Values
from derive.toml import key_path

_OWN_LABELS = {RECIPE_LABEL, SHAPE_LABEL, NODE_LABEL, RANK_LABEL, SHAPE_BUNDLE_LABEL, LAUNCH_BUNDLE_LABEL}
_FOLDERS = ("home", "folder", "models")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a launch beside itself; of a rendered folder nothing is.

    ``settings`` are the variables that the site gives this node, ``site_file`` is what places call the site.
    """

    resolved: Resolved | None = None
    site: Site | None = None
    site_file: str = "site"
    settings: Mapping[str, Sited] = field(default_factory=dict)


def told(launch: Launch, files: Mapping[str, bytes], known: Known) -> Told:
    """Return what one node is told; ``files`` are its own, by their path below its folder."""
    sections: dict[Section, Values] = {
        "service": dict(_service(launch, known)),
        "arguments": dict(_arguments(launch, known)),
        "environment": {name: _variable(name, value, known) for name, value in launch.environment.items()},
        "mounts": {mount.target: _mount(mount, known) for mount in launch.mounts},
        "container": dict(_container(launch, known)),
        "files": {path: Value(text=str(sha256(data))) for path, data in files.items()},
    }
    return Told(rank=launch.rank, node=launch.node, sections=sections)


def source_of(origin: Origin, said: str) -> Source:
    """Return an origin as a source."""
    return Source(file=origin.file, key=origin.key, said=said, rule=origin.rule, read=origin.inputs)


def _arguments(launch: Launch, known: Known) -> Iterator[tuple[str, Value]]:
    if launch.entrypoint:
        text = " ".join(launch.entrypoint)
        yield "entrypoint", Value(text=text, sources=_of(known, "service.entrypoint", text))
    found = parse_arguments(launch.arguments)
    for number, word in enumerate(found.positional, start=1):
        yield f"word {number}", Value(text=word, sources=_positional(known, word))
    for name, value in found.options.items():
        yield from _option((name,), value, known)


def _option(path: tuple[str, ...], value: Json, known: Known) -> Iterator[tuple[str, Value]]:
    if isinstance(value, Mapping) and value and is_table(value):
        for key, inner in value.items():
            yield from _option((*path, key), inner, known)
        return
    text = {True: "on", False: "off"}[value] if isinstance(value, bool) else plain_text(value)
    yield "--" + ".".join(path), Value(text=text, sources=_argument_sources(path, text, known))


def _argument_sources(path: tuple[str, ...], text: str, known: Known) -> tuple[Source, ...]:
    if path == ("master-addr",):
        return (Source(file=known.site_file, key="nodes[0].address", said=text),)
    if path == ("master-port",):
        return _of(known, "service.master-port", text)
    if path in (("node-rank",), ("headless",)):
        return (Source(file=known.site_file, key="nodes", said=text, rule="node-rank"),)
    return _of(known, key_path(("arguments", *path)), text)


def _positional(known: Known, word: str) -> tuple[Source, ...]:
    typed = _of(known, "service.positional", "")
    return (*typed, *_pin(known)) if known.resolved is not None and "/snapshots/" in word else _said(typed, word)


def _pin(known: Known) -> tuple[Source, ...]:
    pin = None if known.resolved is None else known.resolved.model
    if pin is None or known.resolved is None:
        return ()
    set_name = known.resolved.document.get("model")
    name = set_name.get("set") if isinstance(set_name, Mapping) else None
    locked = Source(file=f"lock/{name}.lock.json", key=pin.name, said=f"{pin.repository} {pin.revision or 'unpinned'}")
    return (*_of(known, "model.huggingface", pin.name), locked)


def _variable(name: str, value: str, known: Known) -> Value:
    sited = known.settings.get(name)
    if sited is not None:
        origin = sited.origin
        return Value(text=value, sources=(Source(file=known.site_file, key=origin.key, said=value),))
    return Value(text=value, sources=_of(known, f"environment.{name}", value))


def _mount(mount: BindMount, known: Known) -> Value:
    text = f"{mount.source} {'ro' if mount.read_only else 'rw'}"
    if known.resolved is None:
        return Value(text=text)
    if mount.target == LAUNCH_TARGET:
        return Value(text=text, sources=_site_key(known, "folder"))
    if mount.target == known.resolved.cache:
        image = Source(file="image", key="", said=mount.source.rpartition("/")[2])
        return Value(text=text, sources=(*_of(known, "cache.target", mount.target), image, *_site_key(known, "folder")))
    for one in known.resolved.mounts:
        if one.target == mount.target:
            written = _of(
                known, "model.huggingface" if one.name == "model" else f"mounts.{one.name}.source", one.source
            )
            folders = [key for key in _FOLDERS if one.source.startswith(f"{{{key}}}")]
            return Value(text=text, sources=(*written, *(row for key in folders for row in _site_key(known, key))))
    return Value(text=text)


def _site_key(known: Known, key: str) -> tuple[Source, ...]:
    if known.site is None:
        return ()
    return (Source(file=known.site_file, key=key, said=str(getattr(known.site, key))),)


def _service(launch: Launch, known: Known) -> Iterator[tuple[str, Value]]:
    yield "name", Value(text=launch.name, sources=_of(known, "service.name", launch.name))
    reference = (Source(file="image", key="", said=launch.image), *_site_key(known, "images"))
    yield "image", Value(text=launch.reference, sources=reference)
    yield "port", Value(text=str(launch.port), sources=_of(known, "service.port", str(launch.port)))
    yield "ready", _plain(known, "service.ready.path", launch.ready.path)
    yield "ready timeout", _plain(known, "service.ready.timeout", f"{launch.ready.timeout_seconds} s")
    for phase in launch.guard:
        at = f"guard.{phase.phase}"
        yield f"guard {phase.phase} floor", _plain(known, f"{at}.floor", f"{phase.floor_bytes} bytes")
        yield f"guard {phase.phase} interval", _plain(known, f"{at}.interval", f"{phase.interval} s")
        if phase.wait_seconds:
            yield f"guard {phase.phase} wait", _plain(known, f"{at}.wait", f"{phase.wait_seconds} s")


_CONTAINER_KEYS = (
    ("network", "network"),
    ("ipc", "ipc"),
    ("gpus", "gpus"),
    ("devices", "devices"),
    ("add_capabilities", "add-capabilities"),
    ("security_options", "security-options"),
    ("shared_memory_bytes", "shared-memory"),
    ("memory_bytes", "memory"),
    ("memory_swap_bytes", "memory-swap"),
    ("device_cgroup_rules", "device-cgroup-rules"),
    ("stop_seconds", "stop"),
)


def _container(launch: Launch, known: Known) -> Iterator[tuple[str, Value]]:
    for attribute, key in _CONTAINER_KEYS:
        value = getattr(launch.container, attribute)
        if value not in (None, ()):
            text = ", ".join(value) if isinstance(value, tuple) else str(value)
            yield key, _plain(known, f"container.{key}", text)
    for name, limit in launch.container.ulimits.items():
        yield f"ulimit {name}", _plain(known, f"container.ulimits.{name}", limit)
    for name, text in launch.labels.items():
        if name not in _OWN_LABELS:
            yield f"label {name}", Value(text=text)


def _plain(known: Known, path: str, text: str) -> Value:
    return Value(text=text, sources=_of(known, path, text))


def _of(known: Known, path: str, said: str) -> tuple[Source, ...]:
    """Return where a value of the recipe comes from; what stands in no file is the engine's own."""
    if known.resolved is None:
        return ()
    origin = known.resolved.origins.get(path)
    if origin is None:
        return (Source(file=f"recipes/{known.resolved.recipe}.toml", key=path, said=said),)
    return (source_of(origin, said),)


def _said(sources: tuple[Source, ...], text: str) -> tuple[Source, ...]:
    return tuple(Source(file=one.file, key=one.key, said=text, rule=one.rule) for one in sources)
