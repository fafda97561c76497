# SPDX-License-Identifier: Apache-2.0
"""Which builders a person chose, and whether they can do what a plan asks, before anything begins.

Edge: runs Docker's command.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from derive.buildkit.builders import usable_builder
from derive.errors import DeriveError, InputErrors
from derive.schedule.config import is_builder_name

KIND = "buildkit"


def chosen_builders(text: str) -> tuple[str, ...]:
    """Return the names of builders in ``buildkit[=BUILDER[,BUILDER]]``; the current one is named by nothing.

    Raises:
        InputErrors: for any other text.
    """
    kind, _, text_of_names = text.partition("=")
    if kind != KIND:
        hint = "--executor buildkit, or --executor buildkit=BUILDER"
        raise InputErrors.one(f"no executor: {text!r}", where="--executor", hint=hint)
    names = tuple(dict.fromkeys(text_of_names.split(",")))
    wrong = [name for name in names if name and not is_builder_name(name)]
    if wrong:
        hint = "docker buildx ls lists them"
        raise InputErrors.one(f"no name of a builder: {wrong[0]!r}", where="--executor", hint=hint)
    return names


def require_builders(text: str, platforms: Iterable[str]) -> None:
    """Find out whether each platform has a builder among those chosen that can run its steps now.

    Raises:
        InputErrors: when buildx knows none of a name.
        Unavailable, HostRefuses: what keeps the last of them from running a platform's steps, where none can.
    """
    for platform in sorted(platforms):
        refusal: DeriveError | None = None
        for name in chosen_builders(text):
            try:
                usable_builder(name, platform)
            except InputErrors as error:
                problems = [replace(one, where="--executor") for one in error.problems()]
                raise InputErrors(problems) from error
            except DeriveError as error:
                refusal = error
            else:
                break
        else:
            assert refusal is not None
            raise refusal
