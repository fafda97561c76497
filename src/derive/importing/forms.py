# SPDX-License-Identifier: Apache-2.0
"""The two forms of a cluster file: one shape in a file, or one file for all with a table of shapes.

Core: no IO.

A shape's objects are laid over the shared ones key by key, its argument list option by option; null removes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Json
from derive.errors import Problem, expected_got
from derive.importing.argv import merged_arguments
from derive.importing.read import leaves

_SHAPES = "shapes"
_DEFAULTS = ("default_shape", "default-shape")
_LISTS = ("serve_args", "container.docker_run_args")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneShape:
    """One shape of a file, whole; ``own`` has the key paths that stand in the shape's own table."""

    name: str | None
    document: Mapping[str, Json]
    own: frozenset[str] = frozenset()


def shapes_of(
    document: Mapping[str, Json], name: str | None, file: str
) -> tuple[list[OneShape], str | None, list[Problem]]:
    """Return the shapes of a file, and its default where it says one; ``name`` is what a person called the file."""
    if _SHAPES not in document:
        return [OneShape(name=name, document=document)], None, []
    shapes = document[_SHAPES]
    if not isinstance(shapes, Mapping) or not shapes or not all(isinstance(one, Mapping) for one in shapes.values()):
        detail = expected_got("an object of objects", "another thing")
        return [], None, [Problem(where=f"{file}: {_SHAPES}", message="not a table of shapes", detail=detail)]
    shared = {key: value for key, value in document.items() if key not in (_SHAPES, *_DEFAULTS)}
    problems = []
    if name is not None:
        hint = "leave the name away"
        problems.append(Problem(where=file, message="this file names its shapes itself", hint=hint))
    default = next((document[key] for key in _DEFAULTS if key in document), None)
    found = [
        OneShape(name=shape, document=_laid(shared, own), own=frozenset(_paths(own)))
        for shape, own in shapes.items()
        if isinstance(own, Mapping)
    ]
    return found, default if isinstance(default, str) else None, problems


def _paths(own: Mapping[str, Json]) -> Iterator[str]:
    for path, value in leaves(own):
        yield path
        if path in _LISTS and isinstance(value, list):
            yield from (f"{path}: {str(word).partition('=')[0]}" for word in value)


def _laid(below: Mapping[str, Json], above: Mapping[str, Json], path: str = "") -> dict[str, Json]:
    found = dict(below)
    for key, value in above.items():
        here = f"{path}.{key}" if path else key
        beneath = found.get(key)
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(beneath, Mapping):
            found[key] = _laid(beneath, value, here)
        elif here in _LISTS and isinstance(value, list) and isinstance(beneath, list):
            words = ([str(word) for word in beneath], [str(word) for word in value])
            found[key] = list(merged_arguments(*words)) if here == _LISTS[0] else [*words[0], *words[1]]
        else:
            found[key] = value
    return found
