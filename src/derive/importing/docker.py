# SPDX-License-Identifier: Apache-2.0
"""Arguments of ``docker run`` as keys of a recipe's container.

Core: no IO.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from derive.canonical import Json
from derive.importing.account import Account
from derive.importing.follows import HIDDEN, is_secret

KEY = "container.docker_run_args"

_TEXTS = {"network": "network", "net": "network", "ipc": "ipc", "gpus": "gpus"}
_SIZES = {"shm-size": "shared-memory", "memory": "memory", "m": "memory", "memory-swap": "memory-swap"}
_LISTS = {
    "device": "devices",
    "cap-add": "add-capabilities",
    "security-opt": "security-options",
    "device-cgroup-rule": "device-cgroup-rules",
}
_ALONE = {
    "d": "units start it in the foreground",
    "detach": "units start it in the foreground",
    "rm": "units remove it",
    "init": "the image's entrypoint is process 1",
}
_DROPPED = {
    "name": "the service's name is the container's",
    "restart": "systemd restarts it",
    "pull": "the image is there, by its digest, before it is started",
}
_SIZE = re.compile(r"([0-9]+)([bkmgt]?)(?:i?b)?", re.IGNORECASE)
_SECONDS = re.compile(r"[0-9]{1,9}")
_UNITS = {"": "B", "b": "B", "k": "KiB", "m": "MiB", "g": "GiB", "t": "TiB"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMount:
    """A mount as it was written; ``element`` is what stands for it in the account."""

    source: str
    target: str
    mode: Literal["ro", "rw"]
    element: str
    of: str


@dataclass(slots=True)
class DockerArguments:
    """What the arguments said: keys of ``[container]``, mounts, variables, the entrypoint."""

    container: dict[str, Json] = field(default_factory=dict)
    mounts: list[RawMount] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    entrypoint: str | None = None


def read_docker(words: Sequence[str], account: Account) -> DockerArguments:
    """Read the arguments; each is accounted for by its own text."""
    found = DockerArguments()
    for option, value, element in _split(words):
        state, place, note = _take(found, option, value, element)
        if found.mounts and found.mounts[-1].element == element:
            continue  # accounted for where mounts find their places
        account.add(f"{KEY}: {element}", state, place, note, of=KEY)
    for key in _LISTS.values():
        if isinstance(values := found.container.get(key), list):
            found.container[key] = list(dict.fromkeys(values))
    return found


def _take(
    found: DockerArguments, option: str, value: str, element: str
) -> tuple[Literal["placed", "dropped", "unplaced"], str, str]:
    """Keep one argument; return what became of it."""
    place, note = _keep(found, option, value, element)
    if place:
        return "placed", place, note
    reason = _ALONE.get(option) or _DROPPED.get(option)
    return ("dropped", "", reason) if reason else ("unplaced", "", note or "no key of a recipe says this")


def _keep(found: DockerArguments, option: str, value: str, element: str) -> tuple[str, str]:
    container = found.container
    if option in _TEXTS:
        container[_TEXTS[option]] = value
        return f"container.{_TEXTS[option]}", ""
    if option in _SIZES and (size := _recipe_size(value)) is not None:
        container[_SIZES[option]] = size
        return f"container.{_SIZES[option]}", ""
    if option in _LISTS:
        container.setdefault(_LISTS[option], []).append(value)  # type: ignore[union-attr]
        return f"container.{_LISTS[option]}", ""
    if option == "ulimit":
        name, _, limits = value.partition("=")
        soft, _, hard = limits.partition(":")
        container.setdefault("ulimits", {})[name] = f"{soft}:{hard or soft}"  # type: ignore[index]
        return f"container.ulimits.{name}", ""
    if option == "stop-timeout" and _SECONDS.fullmatch(value):
        container["stop"] = int(value)
        return "container.stop", ""
    return _keep_other(found, option, value, element)


def _keep_other(found: DockerArguments, option: str, value: str, element: str) -> tuple[str, str]:
    if option in ("env", "e") and "=" in value:
        name, _, text = value.partition("=")
        found.environment[name] = text
        return ("", HIDDEN) if is_secret(name, text) else (f"environment.{name}", "")
    if option == "entrypoint":
        found.entrypoint = value
        return "service.entrypoint", ""
    if option in ("mount", "volume", "v"):
        mount = _mount(value, element) if option == "mount" else _volume(value, element)
        if mount is None:
            return "", "only bind mounts have a place"
        found.mounts.append(mount)
        return "mounts", ""
    return "", ""


def _recipe_size(text: str) -> str | None:
    """Write a size of Docker's (``112g``, ``67108864``) as recipes do (``112GiB``, ``67108864B``), or return None."""
    match = _SIZE.fullmatch(text)
    return None if match is None else match[1] + _UNITS[match[2].lower()]


def _split(words: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield each option's name, its value, and how it was written."""
    at = 0
    while at < len(words):
        word = words[at]
        name, separator, value = word.partition("=")
        option = name.lstrip("-")
        takes = not separator and option not in _ALONE and at + 1 < len(words) and not words[at + 1].startswith("--")
        given = words[at + 1] if takes else value
        element = f"{word} {given}" if takes else word
        # What a variable holds may be a secret, and is told to nobody.
        yield option, given, f"--{option} {given.partition('=')[0]}" if option in ("env", "e") else element
        at += 2 if takes else 1


def _mount(value: str, element: str) -> RawMount | None:
    fields = {name: text for name, _, text in (part.partition("=") for part in value.split(","))}
    source = fields.get("source") or fields.get("src")
    target = fields.get("target") or fields.get("dst") or fields.get("destination")
    known = {"type", "source", "src", "target", "dst", "destination", "readonly", "ro"}
    if fields.get("type") != "bind" or not source or not target or fields.keys() - known:
        return None
    read_only = any(fields.get(name, "false") in ("", "true", "1") for name in ("readonly", "ro"))
    return RawMount(source=source, target=target, mode="ro" if read_only else "rw", element=element, of=KEY)


def _volume(value: str, element: str) -> RawMount | None:
    source, _, rest = value.partition(":")
    target, _, mode = rest.partition(":")
    if not source.startswith(("/", "{")) or not target or mode not in ("", "ro", "rw"):
        return None
    return RawMount(source=source, target=target, mode="ro" if mode == "ro" else "rw", element=element, of=KEY)
