# SPDX-License-Identifier: Apache-2.0
"""Whether a container's process was given its launch's words: which option differs, rather than that some word does.

Core: no IO. Standard library only.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from derive.deploy.model import Container
from derive.render.launch import Launch

Found = tuple[str, str | None, str | None]
"""A field, what was expected there, and what was got."""

HIDDEN = "(set, and not shown)"
"""Stands for a value that may be a secret: differences are recorded."""

_SECRET = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS", "KEY")


def is_secret_name(name: str) -> bool:
    """Say whether a variable or option of this name, which somebody added by hand, may hold a secret."""
    return name.upper().endswith(_SECRET)


def word_differences(launch: Launch, container: Container) -> Iterator[Found]:
    """Yield each option, and the command before all options, that differs.

    An entrypoint and what follows it reach the process as one list, however they were given. Without an entrypoint in
    the launch the image's own runs, and what follows it is compared alone.
    """
    if launch.entrypoint:
        wanted, got = (*launch.entrypoint, *launch.arguments), (*container.entrypoint, *container.arguments)
    elif launch.arguments:
        wanted, got = launch.arguments, container.arguments
    else:
        return
    if wanted == got:
        return
    before, options = _grouped(wanted)
    before_got, options_got = _grouped(got)
    found = []
    if before != before_got:
        found.append(("command", _text(before), _text(before_got)))
    for name in sorted(options.keys() | options_got.keys()):
        expected, seen = options.get(name), options_got.get(name)
        if expected != seen:
            is_secret = expected is None and is_secret_name(name)
            found.append((f"arguments.{name}", _text(expected), HIDDEN if is_secret else _text(seen)))
    yield from found
    if not found:
        yield ("arguments", "in the launch's order", "in another order")


def _grouped(words: Sequence[str]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the words before all options, and the values of each option by its name: ``--rows``, ``--rows[2]``."""
    before: list[str] = []
    options: dict[str, list[str]] = {}
    values = before
    for word in words:
        if not word.startswith("--") or word == "--":
            values.append(word)
            continue
        name, equals, value = word.partition("=")
        key, number = name, 1
        while key in options:
            number += 1
            key = f"{name}[{number}]"
        values = options[key] = [f"={value}"] if equals else []
    return tuple(before), {name: tuple(found) for name, found in options.items()}


def _text(words: Sequence[str] | None) -> str | None:
    return None if words is None else shlex.join(words) or "(alone)"
