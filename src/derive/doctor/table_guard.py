# SPDX-License-Identifier: Apache-2.0
"""The checks of memory guards: that there is one, that it can be started, and that its floors make sense.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from derive.doctor.check import Answer, Check, Unknown, each_shape, key_place
from derive.errors import Problem, expected_got
from derive.recipes.forms import size_bytes
from derive.words import binary_size

if TYPE_CHECKING:
    from derive.doctor.case import Case
    from derive.recipes.resolved import GuardPhase, Resolved

CAPABILITY = "memory-guard"
"""What an image has that the guard is copied out of."""

_INTERVAL = (Decimal("0.01"), Decimal(60))  # what the guard takes


def _phases(_: Case, resolved: Resolved) -> Iterator[Answer]:
    present = {one.phase for one in resolved.guard}
    if resolved.schema is not None or resolved.guard:
        for phase in ("startup", "steady"):
            if phase not in present:
                message = f"no guard while it {'starts' if phase == 'startup' else 'serves'}"
                yield Problem(where=key_place(resolved, "guard"), message=message, hint=f"write [guard.{phase}]")


def _floors(_: Case, resolved: Resolved) -> Iterator[Answer]:
    startup, steady = _phase(resolved, "startup"), _phase(resolved, "steady")
    if startup is not None and steady is not None and startup.floor_bytes <= steady.floor_bytes:
        yield Problem(
            where=key_place(resolved, "guard.startup.floor"),
            message="the floor of the start is not above the steady one",
            detail=expected_got(f"more than {binary_size(steady.floor_bytes)}", binary_size(startup.floor_bytes)),
        )


def _sizes(_: Case, resolved: Resolved) -> Iterator[Answer]:
    for one in resolved.guard:
        if one.floor_bytes <= 0 or one.floor_bytes % 1024:
            yield Problem(
                where=key_place(resolved, f"guard.{one.phase}.floor"),
                message="not a floor that a guard can look for",
                detail=expected_got("whole KiB above 0, as the kernel counts", f"{one.floor_bytes} bytes"),
            )


def _intervals(_: Case, resolved: Resolved) -> Iterator[Answer]:
    for one in resolved.guard:
        try:
            seconds = Decimal(one.interval)
        except InvalidOperation:
            seconds = Decimal(0)
        if not _INTERVAL[0] <= seconds <= _INTERVAL[1]:
            yield Problem(
                where=key_place(resolved, f"guard.{one.phase}.interval"),
                message="not an interval that the guard takes",
                detail=expected_got(f"{_INTERVAL[0]} to {_INTERVAL[1]} seconds", one.interval),
            )


def _room(_: Case, resolved: Resolved) -> Iterator[Answer]:
    text = resolved.memory.get("usable")
    if not resolved.guard or (text is None and resolved.schema is None):
        return
    place = key_place(resolved, "memory.usable")
    if not isinstance(text, str):
        yield Unknown(
            where=place, reason="the recipe does not say how much memory is usable", fix="write memory.usable"
        )
        return
    try:
        usable = size_bytes(text)
    except ValueError as error:
        yield Unknown(where=place, reason=str(error))
        return
    for one in resolved.guard:
        if one.floor_bytes >= usable:
            yield Problem(
                where=key_place(resolved, f"guard.{one.phase}.floor"),
                message="a floor that this machine never has available: the guard would kill whatever it saw",
                detail=expected_got(f"less than {text}", binary_size(one.floor_bytes)),
            )


def _guard_program(case: Case, resolved: Resolved) -> Iterator[Answer]:
    if not resolved.guard:
        return
    image = case.content.images.get(resolved.image)
    where = f"images/{resolved.image}.toml: capabilities"
    if image is None:
        yield Unknown(where=where, reason=f"the image {resolved.image} is not declared, or cannot be read")
    elif CAPABILITY not in image.capabilities:
        yield Problem(where=where, message=f"the shape has a guard, and this image has no capability {CAPABILITY}")


def _phase(resolved: Resolved, name: str) -> GuardPhase | None:
    return next((one for one in resolved.guard if one.phase == name), None)


CHECKS: tuple[Check, ...] = (
    Check(
        id="guard.phases",
        severity="error",
        what="what serves a model is guarded while it starts and while it serves",
        why="GPU memory of a Spark counts in no control group: without a guard the machine dies, not the container",
        how="which of [guard.startup] and [guard.steady] a shape has; a plain service may have neither",
        fix="write [guard.startup] and [guard.steady]",
        place="recipes/*.toml",
        judge=each_shape(_phases),
        over="shapes",
    ),
    Check(
        id="guard.floors",
        severity="error",
        what="the floor of the start is above the steady one",
        why="compiling and profiling take memory by the gigabyte within a second",
        how="guard.startup.floor against guard.steady.floor of each shape",
        fix="raise guard.startup.floor, or lower guard.steady.floor",
        place="recipes/*.toml",
        judge=each_shape(_floors),
        over="shapes",
    ),
    Check(
        id="guard.sizes",
        severity="error",
        what="floors are whole KiB above 0",
        why="a floor of nothing never guards, and the kernel counts what is available in KiB",
        how="guard.*.floor of each shape",
        fix="write it as in 5GiB or 1536MiB",
        place="recipes/*.toml",
        judge=each_shape(_sizes),
        over="shapes",
    ),
    Check(
        id="guard.intervals",
        severity="error",
        what="the guard looks as often as it can be told to",
        why="the guard refuses other intervals when it starts, and then nothing guards",
        how="guard.*.interval of each shape, from 0.01 to 60 seconds",
        fix='write seconds as text, as in "0.25"',
        place="recipes/*.toml",
        judge=each_shape(_intervals),
        over="shapes",
    ),
    Check(
        id="guard.room",
        severity="error",
        what="floors lie below what the machine has",
        why="a floor that is never available kills the container at the first look",
        how="guard.*.floor against memory.usable of each shape; the machine itself is not asked",
        fix="lower the floor, or correct memory.usable",
        place="recipes/*.toml",
        judge=each_shape(_room),
        over="shapes",
    ),
    Check(
        id="guard.program",
        severity="error",
        what="the guard is in the image that it guards",
        why="the guard is copied out of the image, by its path: without it the unit does not start",
        how=f"whether the image's file declares the capability {CAPABILITY}; deriving the image proves it",
        fix=f"declare {CAPABILITY} in the image's file, with the derivation that gives it",
        place="recipes/*.toml images/*.toml",
        judge=each_shape(_guard_program),
        over="shapes",
    ),
)
