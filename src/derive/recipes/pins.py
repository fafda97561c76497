# SPDX-License-Identifier: Apache-2.0
"""Which checkpoint a recipe serves: its entry in a lock, or the reason why nobody has pinned it.

Core: no IO. Standard library only: a lock of models is small, and reading it must not cost a parser of models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.canonical import CanonicalError, Json, decode
from derive.errors import Problem, expected_got
from derive.recipes.resolved import ModelPin, Origin
from derive.recipes.transport import Gift
from derive.toml import parse_toml
from derive.words import near

_TYPE = "huggingface"
UNPINNED = "unpinned"
"""Stands for a revision while nobody has pinned one."""


def read_pin(
    files: Mapping[str, bytes], set_name: str, name: str, where: str
) -> tuple[ModelPin | None, tuple[Problem, ...]]:
    """Return the pin of a Hugging Face checkpoint; ``where`` is the place in the recipe that names it.

    A checkpoint whose lock says why it is unpinned is no problem: the pin says so.
    """
    lock = f"lock/{set_name}.lock.json"
    wish = f"lock/{set_name}.toml"
    hint = f"derive lock {set_name}"
    if lock not in files:
        message = f"nothing is locked: no {lock}"
        return None, (Problem(where=where, message=message, hint=hint if wish in files else None),)
    try:
        entries = _entries(decode(files[lock]))
    except CanonicalError as error:
        return None, (Problem(where=lock, message=f"not a lock file: {error}", hint=hint),)
    entry = entries.get(name)
    if entry is None:
        message = f"no {_TYPE} entry {name!r} in {lock}"
        return None, (Problem(where=where, message=message, hint=near(name, entries) or hint),)
    stale = _stale(files.get(wish), wish, name, entry)
    if stale:
        return None, stale
    repository = _text(entry, "repository") or ""
    return (
        ModelPin(
            name=name,
            repository=repository,
            folder=f"models--{repository.replace('/', '--')}",
            revision=_text(entry, "revision"),
            unpinned=_text(entry, "unpinned"),
        ),
        (),
    )


def pinned(pin: ModelPin, set_name: str, target: str) -> Iterator[Gift]:
    """Yield what a shape gets by its pin: repository, revision, and the mount of the checkpoint's folder."""
    file = f"lock/{set_name}.lock.json"
    read = f"model.huggingface = {pin.name}"
    for key, value in (("repository", pin.repository), ("revision", pin.revision or UNPINNED)):
        doc = pin.unpinned or "" if key == "revision" else ""
        origin = Origin(file=file, key=f"{_TYPE}.{pin.name}.{key}", rule="pin", inputs=(read,), doc=doc)
        yield Gift(path=("model", key), value=value, origin=origin)
    mount = {"source": f"{{models}}/{pin.folder}", "target": target, "mode": "ro"}
    inputs = (f"model.target = {target}", f"model.repository = {pin.repository}")
    for key, part in mount.items():
        origin = Origin(file=file, key=f"{_TYPE}.{pin.name}.repository", rule="model-mount", inputs=inputs)
        yield Gift(path=("mounts", "model", key), value=part, origin=origin)


def _entries(document: Json) -> dict[str, Mapping[str, Json]]:
    listed = document.get("entries") if isinstance(document, Mapping) else None
    found = [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
    return {str(entry.get("name")): entry for entry in found if entry.get("type") == _TYPE}


def _stale(data: bytes | None, file: str, name: str, entry: Mapping[str, Json]) -> tuple[Problem, ...]:
    """Say where a wish asks for another checkpoint than the lock holds."""
    if data is None:
        return ()
    table, problems = parse_toml(data, file)
    if table is None:
        return tuple(problems)
    wished = table.get(_TYPE, {})
    asked = wished.get(name) if isinstance(wished, dict) else None
    set_name = file.removeprefix("lock/").removesuffix(".toml")
    hint = f"derive lock {set_name}"
    if not isinstance(asked, dict):
        return (
            Problem(
                where=f"{file}: {_TYPE}", message=f"the lock has {name!r}, which is no longer asked for", hint=hint
            ),
        )
    return tuple(
        Problem(
            where=f"{file}: {_TYPE}.{name}.{key}",
            message="this moved since it was locked",
            detail=expected_got(entry.get(key), asked[key]),
            hint=hint,
        )
        for key in ("repository", "revision")
        if key in asked and asked[key] != entry.get(key) and not (key == "revision" and _moves(asked[key]))
    )


def _moves(revision: object) -> bool:
    """Say whether a revision names what may move, such as a branch: the lock then holds what it was."""
    return not (isinstance(revision, str) and len(revision) == 40 and not set(revision) - set("0123456789abcdef"))


def _text(entry: Mapping[str, Json], key: str) -> str | None:
    value = entry.get(key)
    return value if isinstance(value, str) else None
