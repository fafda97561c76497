# SPDX-License-Identifier: Apache-2.0
"""What tuned settings may be: each by itself, two against each other, and a profile as a whole.

Core: no IO. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from derive.errors import Problem, expected_got
from derive.fabric.cabling import NODES
from derive.fabric.transports import FILE, Fabric, Kind, Tuning
from derive.words import near

MULTIPLE = 16
"""Bytes that one-shot limits are multiples of: a thread moves so much at once."""
CAPACITY = "SPARKNET_ROCE_ALLREDUCE_CAPACITY_BYTES"
DISPATCH = "SPARKNET_ROCE_ALLREDUCE_DISPATCH_MAX_BYTES"
CAPACITY_BYTES = 2097152
"""The capacity where nobody sets one."""
_SHOWN = 80
CHANNELS = ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")
SWITCHLESS = "NCCL_SWITCHLESS_BIDIRECTIONAL"

_DIGITS = 18
"""More are no 63-bit number, which is the most that any reader takes."""
_SIX = re.compile(rf"-?[0-9]{{1,{_DIGITS}}}( -?[0-9]{{1,{_DIGITS}}}){{5}}")
_SIZE = re.compile(rf"[1-9][0-9]{{0,{_DIGITS - 1}}}(KB|MB|GB)?")


def tuning_problems(tuning: Tuning, fabric: Fabric) -> list[Problem]:
    """Return everything wrong with a profile."""
    problems = list(_scope_problems(tuning, fabric))
    scopes: list[tuple[str, Mapping[str, str]]] = [("nccl", tuning.nccl)]
    scopes += [(f"engines.{name}", values) for name, values in tuning.engines.items()]
    scopes += [(f"transports.{name}", values) for name, values in tuning.transports.items()]
    for scope, values in scopes:
        places = {name: f"{tuning.file}: {scope}.{name}" for name in values}
        for name in values:
            problems += _known(name, scope, tuning, fabric)
        problems += value_problems(values, places, fabric, nodes=tuning.nodes)
    for name, transport in fabric.transports.items():
        merged = {key: value for _, key, value in tuning.values(transport)}
        places = {key: f"{tuning.file}: {place}" for place, key, _ in tuning.values(transport)}
        if name in tuning.transports:
            problems += pair_problems(merged, places)
        cabling = next((one for one, count in NODES.items() if count == tuning.nodes), None)
        if cabling in transport.cablings and any(one in merged for one in CHANNELS):
            problems += channel_problems(merged, places, transport.channels.get(cabling, ()))
    return list(dict.fromkeys(problems))


def value_problems(
    values: Mapping[str, str], places: Mapping[str, str], fabric: Fabric, *, nodes: int
) -> Iterator[Problem]:
    """Yield what is wrong with tuned settings, wherever they come from; ``places`` says where each stands."""
    for name in sorted(values.keys() & fabric.tunable.keys()):
        tunable = fabric.tunable[name]
        said = _wrong(tunable.kind, values[name])
        if said is not None:
            yield Problem(where=places[name], message=f"{name} {said}", detail=(f"got       {values[name][:_SHOWN]}",))
        if tunable.nodes is not None and tunable.nodes != nodes:
            message = f"{name} is for {tunable.nodes} nodes, and here are {nodes}"
            yield Problem(where=places[name], message=message, hint="leave it out")
    patched = sorted(name for name in values if name in fabric.tunable and fabric.tunable[name].needs is not None)
    if patched and nodes == 4 and values.get(SWITCHLESS) != "2":
        at = SWITCHLESS if SWITCHLESS in values else patched[0]
        message = f"{patched[0]} is for rings in both directions, and {SWITCHLESS} is not 2"
        got = values.get(SWITCHLESS, "no such setting")
        yield Problem(where=places[at], message=message, detail=expected_got(f"{SWITCHLESS} = 2", got))
    yield from pair_problems(values, places)


def pair_problems(values: Mapping[str, str], places: Mapping[str, str]) -> Iterator[Problem]:
    """Yield settings that do not go together: a dispatch limit above the capacity, more channels at least than most."""
    dispatch, capacity = _number(values.get(DISPATCH)), _number(values.get(CAPACITY, str(CAPACITY_BYTES)))
    if dispatch is not None and capacity is not None and dispatch > capacity:
        detail = expected_got(f"{capacity} at most, which is {CAPACITY}", dispatch)
        yield Problem(where=places[DISPATCH], message=f"{DISPATCH} is above the capacity", detail=detail)
    least, most = (_number(values.get(name)) for name in CHANNELS)
    if least is not None and most is not None and least > most:
        detail = expected_got(f"{most} at most, which is {CHANNELS[1]}", least)
        yield Problem(where=places[CHANNELS[0]], message=f"{CHANNELS[0]} is above the most", detail=detail)


def channel_problems(values: Mapping[str, str], places: Mapping[str, str], allowed: Sequence[int]) -> Iterator[Problem]:
    """Yield what is wrong with the channels of rings: least and most are one number, and one of those allowed, if any.

    ``places`` has a place for one of the two at least.
    """
    least, most = (values.get(name) for name in CHANNELS)
    if allowed and (least != most or str(least) not in map(str, allowed)):
        counts = ", ".join(map(str, allowed[:-1])) + (" or " if len(allowed) > 1 else "") + str(allowed[-1])
        yield Problem(
            where=next(places[name] for name in CHANNELS if name in places),
            message="least and most channels of rings are not one number that the cabling allows",
            detail=expected_got(
                f"{counts}, for both {CHANNELS[0]} and {CHANNELS[1]}",
                " and ".join("no such setting" if one is None else one for one in (least, most)),
            ),
        )


def _scope_problems(tuning: Tuning, fabric: Fabric) -> Iterator[Problem]:
    for key, named, known in (
        ("engines", tuning.engines, fabric.engines),
        ("transports", tuning.transports, fabric.transports),
    ):
        for name in named:
            if name not in known:
                hint = f"known: {', '.join(sorted(known))}"
                yield Problem(where=f"{tuning.file}: {key}.{name}", message=f"no such {key[:-1]}", hint=hint)


def _known(name: str, scope: str, tuning: Tuning, fabric: Fabric) -> Iterator[Problem]:
    place = f"{tuning.file}: {scope}.{name}"
    tunable = fabric.tunable.get(name)
    if tunable is None:
        yield unknown_setting(place, name, fabric)
        return
    kind, _, owner = scope.partition(".")
    engine = {"nccl": None, "engines": owner}.get(kind, _engine_of(owner, fabric) if owner else None)
    if tunable.engine is not None and tunable.engine != engine:
        hint = f"write it below [engines.{tunable.engine}]"
        yield Problem(where=place, message=f"{name} is read by {tunable.engine} alone", hint=hint)
    elif tunable.engine is None and kind == "engines":
        yield Problem(where=place, message=f"{name} is NCCL's, and no engine's", hint="write it below [nccl]")


def unknown_setting(where: str, name: str, fabric: Fabric) -> Problem:
    """Return the problem of a setting that is none that can be tuned."""
    if any(name in one.settings for one in fabric.transports.values()):
        message, hint = "is required by transports, and not to be tuned", f"leave it out: {FILE} gives it"
    else:
        message = "is no setting that can be tuned"
        hint = near(name, fabric.tunable) or "fabric/settings.toml lists what can be"
    return Problem(where=where, message=f"{name} {message}", hint=hint)


def _engine_of(transport: str, fabric: Fabric) -> str | None:
    return fabric.transports[transport].engine if transport in fabric.transports else None


def _number(text: str | None) -> int | None:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return int(text) if is_number and text is not None else None


def _wrong(kind: Kind, value: str) -> str | None:
    number = _number(value)
    if number is None and value.isascii() and value.isdecimal():
        return f"has more than {_DIGITS} digits"
    match kind:
        case "bytes" | "count":
            return None if number is not None and number > 0 else "is no whole number above 0"
        case "limit":
            return None if number is not None and number % MULTIPLE == 0 else f"is no multiple of {MULTIPLE} bytes"
        case "size":
            return None if _SIZE.fullmatch(value) else "is no size such as 2MB"
        case "protocol":
            return None if value == "^LL128" else "may only be ^LL128"
        case "six-numbers":
            return None if _SIX.fullmatch(value) else "is not six whole numbers with a space between"
