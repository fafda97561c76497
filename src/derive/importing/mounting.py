# SPDX-License-Identifier: Apache-2.0
"""Mounts of another deployment: the model's, the cache's, and those that a recipe names.

Core: no IO.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from derive.canonical import Json
from derive.errors import Problem, expected_got
from derive.importing.account import Account
from derive.importing.docker import RawMount

KEY = "container.mounts"
MODEL = "/model"
"""Where a recipe's model lies: the repository's whole folder, so that links from snapshots to blobs resolve."""

_MODEL = re.compile(r"(?P<hub>.*)/models--(?P<owner>[^/]+?)--(?P<name>[^/]+)/(snapshots/(?P<revision>[^/]+)|blobs)")
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A checkpoint of a lock: where a recipe finds it, its repository, and its revision where one is pinned."""

    set: str
    name: str
    repository: str
    revision: str | None


@dataclass(slots=True)
class Mounted:
    """What mounts came to: tables of the recipe, where the checkpoint was seen, and where checkpoints lie."""

    model: dict[str, Json] = field(default_factory=dict)
    cache: dict[str, Json] = field(default_factory=dict)
    mounts: dict[str, Json] = field(default_factory=dict)
    snapshot: str | None = None
    models: str | None = None
    problems: list[Problem] = field(default_factory=list)


def read_mounts(value: Json, file: str) -> tuple[list[RawMount], list[Problem]]:
    """Read ``container.mounts``: lists of source, target and mode."""
    found, problems = [], []
    for at, one in enumerate(value if isinstance(value, list) else [value] if value else []):
        match one:
            case [str(source), str(target), ("ro" | "rw") as mode]:
                element = f"{source}:{target}:{mode}"
                found.append(RawMount(source=source, target=target, mode=mode, element=element, of=KEY))
            case _:
                detail = expected_got('["source", "target", "ro" or "rw"]', one)
                problems.append(Problem(where=f"{file}: {KEY}[{at}]", message="not a mount", detail=detail))
    return found, problems


def place_mounts(
    mounts: Sequence[RawMount], home: str | None, pins: Iterable[Pin], wanted: str | None, account: Account
) -> Mounted:
    """Find a place for every mount; ``wanted`` is the pin that a person named."""
    found = Mounted()
    pins = tuple(pins)
    for mount in mounts:
        source = _with_home(mount.source, home)
        key = f"{mount.of}: {mount.element}"
        match = _MODEL.fullmatch(source)
        if match is not None and mount.mode == "ro":
            place = _take_model(found, match, mount, pins, wanted, account.file)
            account.add(key, "placed", place, "one mount of the whole repository", of=mount.of)
        elif _is_cache(mount) and not found.cache:
            found.cache = {"target": mount.target}
            account.add(key, "placed", "cache.target", "on the node: a folder for each image digest", of=mount.of)
        else:
            name = _name(mount.target, found.mounts)
            found.mounts[name] = {"source": source, "target": mount.target, "mode": mount.mode}
            account.add(key, "placed", f"mounts.{name}", of=mount.of)
    return found


def _take_model(
    found: Mounted, match: re.Match[str], mount: RawMount, pins: tuple[Pin, ...], wanted: str | None, file: str
) -> str:
    revision = match["revision"]
    found.models = match["hub"]
    if revision is None:
        return "model"
    found.snapshot = mount.target
    repository = f"{match['owner']}/{match['name']}"
    pin = _pin(pins, repository, revision, wanted)
    if pin is None:
        known = [f"{one.repository} {one.revision or 'unpinned'}  {one.name}" for one in pins]
        message = "no lock pins this checkpoint" if wanted is None else f"no lock has a checkpoint {wanted}"
        detail = (
            *expected_got("one of the locks'", f"{repository} {revision}"),
            *(f"locked    {row}" for row in known),
        )
        hint = "pin it in a wish and run derive lock, or name another with --model"
        found.problems.append(Problem(where=f"{file}: {mount.of}", message=message, detail=detail, hint=hint))
        return "model"
    found.model = {"set": pin.set, "huggingface": pin.name, "target": MODEL}
    return "model.huggingface"


def _pin(pins: tuple[Pin, ...], repository: str, revision: str, wanted: str | None) -> Pin | None:
    if wanted is not None:
        return next((one for one in pins if one.name == wanted), None)
    return next((one for one in pins if (one.repository, one.revision) == (repository, revision)), None)


def _with_home(source: str, home: str | None) -> str:
    """Write the home folder as the word that a site fills in."""
    if home and source.startswith(home + "/"):
        return "{home}" + source.removeprefix(home)
    return source


def _is_cache(mount: RawMount) -> bool:
    return (
        mount.mode == "rw" and mount.source.rpartition("/")[2] == "cache" and mount.source.startswith(("{home}", "/"))
    )


def _name(target: str, taken: Mapping[str, Json]) -> str:
    words: list[str] = _WORD.findall(target.lower()) or ["mount"]
    name = words[-1]
    for word in reversed(words[:-1]):
        if name not in taken:
            break
        name = f"{word}-{name}"
    base, number = name, 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    return name
