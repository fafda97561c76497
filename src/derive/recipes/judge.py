# SPDX-License-Identifier: Apache-2.0
"""Is a merged shape whole, and do its values go together? What the form of each value is was judged before.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from derive.errors import Problem, expected_got
from derive.recipes.declarations import REQUIRED, REQUIRED_IN
from derive.recipes.forms import size_bytes, texts
from derive.recipes.merge import KeyPath, Tables, find
from derive.recipes.values import plain_text

Place = Callable[[KeyPath], str]


def judge(tables: Tables, at: Place, missing_at: Place) -> Iterator[Problem]:
    """Yield what is wrong with a shape; ``at`` says where a value stands, ``missing_at`` where one would."""
    for path in _required(tables):
        if find(tables, path) is None:
            yield Problem(where=missing_at(path), message="this key is missing")
    yield from _service(tables, at)
    yield from _guard(tables, at)
    yield from _swap(tables, at, missing_at)
    yield from _targets(tables, at)


def _required(tables: Tables) -> Iterator[KeyPath]:
    yield from REQUIRED
    program = find(tables, ("service", "program"))
    if program == "vllm":
        yield from (("service", "master-port"), ("model",))
    elif program == "plain":
        yield ("service", "entrypoint")
    for table, keys in REQUIRED_IN.items():
        if find(tables, table) is not None:
            yield from ((*table, key) for key in keys)
    for name in _names(tables, "mounts"):
        yield from (("mounts", name, key) for key in ("source", "target", "mode"))


def _service(tables: Tables, at: Place) -> Iterator[Problem]:
    path = ("service", "positional")
    if any("{model}" in word for word in texts(find(tables, path))) and find(tables, ("model",)) is None:
        yield Problem(where=at(path), message="{model} stands here, and there is no [model]")
    if find(tables, ("service", "program")) == "plain" and find(tables, ("kernel-backend",)) is not None:
        yield Problem(where=at(("kernel-backend",)), message="read by vLLM alone, and this service is another program")


def _guard(tables: Tables, at: Place) -> Iterator[Problem]:
    path = ("guard", "startup", "floor")
    startup, steady = find(tables, path), find(tables, ("guard", "steady", "floor"))
    if isinstance(startup, str) and isinstance(steady, str) and size_bytes(startup) <= size_bytes(steady):
        detail = expected_got(f"more than {steady}", startup)
        yield Problem(where=at(path), message="not above the floor of the steady phase", detail=detail)


def _swap(tables: Tables, at: Place, missing_at: Place) -> Iterator[Problem]:
    path, below = ("container", "memory-swap"), ("container", "memory")
    memory, both = find(tables, below), find(tables, path)
    if isinstance(both, str) and not isinstance(memory, str):
        message = "this key is missing: Docker limits memory and swap together only where memory has a limit"
        yield Problem(where=missing_at(below), message=message)
    elif isinstance(both, str) and isinstance(memory, str) and size_bytes(both) < size_bytes(memory):
        detail = expected_got(f"{memory} or more: memory and swap together", both)
        yield Problem(where=at(path), message="below container.memory, which it contains", detail=detail)


def _targets(tables: Tables, at: Place) -> Iterator[Problem]:
    """Yield mounts whose target is also that of another."""
    taken: dict[str, KeyPath] = {}
    paths: list[KeyPath] = [("model", "target"), ("cache", "target")]
    paths += [("mounts", name, "target") for name in _names(tables, "mounts") if name != "model"]
    for path in paths:
        target = find(tables, path)
        if isinstance(target, str):
            if target in taken:
                yield Problem(
                    where=at(path), message=f"{target} is the target of another mount: {'.'.join(taken[target])}"
                )
            taken[target] = path


def dropped(tables: Tables, at: Place) -> Iterator[Problem]:
    """Yield what a shape says is no longer there, and says itself; nothing has been given to it yet.

    A name with a value (``load-format=b12x``) is of that value alone.
    """
    for name in _names(tables, "dropped"):
        key, separator, gone = name.partition("=")
        for path in (("arguments", *key.split(".")), ("environment", key)):
            value = find(tables, path)
            if value is None or (separator and plain_text(value) != gone):
                continue
            reason = plain_text(find(tables, ("dropped", name)))
            said = f"{key} = {plain_text(value)}" if separator else key
            detail = (f"said at   {at(('dropped', name)).partition(': ')[2]}",)
            message = f"{said} is no longer there: {reason}"
            yield Problem(where=at(path), message=message, detail=detail, hint="remove it")


def _names(tables: Tables, key: str) -> tuple[str, ...]:
    table = tables.get(key)
    return tuple(table) if isinstance(table, Mapping) else ()
