# SPDX-License-Identifier: Apache-2.0
"""What a launch may not say, as one of its forms could not: all forms say the same, or none is written.

Core: no IO. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from derive.errors import Problem, expected_got
from derive.recipes.resolved import Resolved
from derive.render.launch import Launch

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NODE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_LINE_BYTES = 65_000
"""Docker reads lines of an environment file of up to 64 KiB, end included."""


def launch_problems(launch: Launch, resolved: Resolved) -> Iterator[Problem]:
    """Yield what cannot be said, each at the place in the recipe that says it."""
    place = _places(resolved)
    yield from _names(launch, place)
    yield from _variables(launch, place)
    yield from _texts(launch, place)
    yield from _targets(launch, place)


def _places(resolved: Resolved) -> Callable[[str], str]:
    def place(path: str) -> str:
        origin = resolved.origins.get(path)
        return f"recipes/{resolved.recipe}.toml: {path}" if origin is None else f"{origin.file}: {origin.key}"

    return place


def _names(launch: Launch, place: Callable[[str], str]) -> Iterator[Problem]:
    if not _NAME.fullmatch(launch.name):
        detail = expected_got("small letters and digits, single hyphens between", repr(launch.name))
        yield Problem(where=place("service.name"), message="no name for a container and its units", detail=detail)
    if not _NODE.fullmatch(launch.node) or launch.node.lower().endswith(".json"):
        yield Problem(where=f"site: nodes[{launch.rank}].name", message=f"no name for a folder: {launch.node!r}")


def _variables(launch: Launch, place: Callable[[str], str]) -> Iterator[Problem]:
    for name, value in launch.environment.items():
        where = place(f"environment.{name}")
        if not _VARIABLE.fullmatch(name):
            yield Problem(where=where, message=f"no name of a variable: {name!r}")
        if "\n" in value or "\r" in value:
            yield Problem(where=where, message="a line break in a variable, which no environment file can hold")
        if len(name.encode()) + len(value.encode("utf-8", "surrogatepass")) > _LINE_BYTES:
            yield Problem(where=where, message=f"longer than {_LINE_BYTES} bytes, and so than a line that Docker reads")


def _texts(launch: Launch, place: Callable[[str], str]) -> Iterator[Problem]:
    said = [("arguments", word) for word in (*launch.entrypoint, *launch.arguments)]
    said += [(f"environment.{name}", value) for name, value in launch.environment.items()]
    said += [("mounts", text) for mount in launch.mounts for text in (mount.source, mount.target)]
    said += [("labels", text) for pair in launch.labels.items() for text in pair]
    for path, text in said:
        if not _is_given(text):
            yield Problem(where=place(path), message=f"a character that no process can be given: {text!r}")


def _targets(launch: Launch, place: Callable[[str], str]) -> Iterator[Problem]:
    seen: set[str] = set()
    for mount in launch.mounts:
        if mount.target in seen:
            yield Problem(where=place("mounts"), message=f"two mounts with the target {mount.target}")
        seen.add(mount.target)
        for text in (mount.source, mount.target):
            if not text.startswith("/"):
                yield Problem(where=place("mounts"), message=f"no absolute path: {text!r}")


def _is_given(text: str) -> bool:
    """Say whether a process can be given a text: no part of it is a NUL or half of a pair of code units."""
    try:
        return b"\0" not in text.encode("utf-8")
    except UnicodeEncodeError:
        return False
