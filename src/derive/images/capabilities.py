# SPDX-License-Identifier: Apache-2.0
"""What an image says it can do: each capability is tied to the derivation, patch or wheel of its closure that gives it.

Core: no IO.

Shapes of recipes name the capabilities that they need. A capability whose provider is not in the image is an error, so
that nothing is promised by a name alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from derive.canonical import escape
from derive.content import key_path
from derive.derivations.model import IN_A_ROOT, Derivation
from derive.errors import Problem, expected_got
from derive.images.declarations import CapabilityDecl
from derive.images.oci import CAPABILITIES_LABEL
from derive.words import near


def label(capabilities: Mapping[str, CapabilityDecl]) -> dict[str, str]:
    """Return the label that an image's config carries."""
    return {CAPABILITIES_LABEL: " ".join(sorted(capabilities))} if capabilities else {}


def files(capabilities: Mapping[str, CapabilityDecl]) -> dict[str, str]:
    """Return the path in the image that each capability needs, relative to its root and escaped."""
    return {name: escape(one.file[1:].encode()) for name, one in capabilities.items() if one.file is not None}


def problems(capabilities: Mapping[str, CapabilityDecl], parts: Sequence[Derivation], where: str) -> Iterator[Problem]:
    """Yield each capability whose provider is not among what an image's layers are made from."""
    if not capabilities:
        return
    steps = list(_contents(parts))
    provided = {
        "derivation": {step.name for step in steps},
        "patch": {one.removeprefix("patches/") for step in steps if step.builder == "patch" for one in step.labels},
        "wheel": {str(step.arguments["name"]) for step in steps if step.builder == "fetch-wheel"},
        "package": {str(step.arguments["name"]) for step in steps if step.builder == "fetch-deb"},
    }
    for name, capability in capabilities.items():
        kind, provider = capability.provider
        if provider not in provided[kind]:
            place = f"{where}.{key_path((name, 'from' if kind == 'derivation' else kind))}"
            message = f"no {kind} {provider!r} is in this image, so nothing gives it this capability"
            yield Problem(where=place, message=message, hint=near(provider, provided[kind]))


def environment_problems(
    capabilities: Mapping[str, CapabilityDecl], environment: Mapping[str, str], where: str
) -> Iterator[Problem]:
    """Yield each variable that a capability needs, and that an image's configuration does not set so."""
    for name, capability in capabilities.items():
        for variable, value in capability.environment.items():
            got = environment.get(variable)
            if got != value:
                yield Problem(
                    where=f"{where}.{key_path((name, 'environment', variable))}",
                    message="the image's configuration does not set this variable so",
                    detail=expected_got(repr(value), "no such variable" if got is None else repr(got)),
                )


def _contents(parts: Sequence[Derivation]) -> Iterator[Derivation]:
    """Yield all that some derivations are made of, themselves included, each once; not what only made them."""
    seen: set[Derivation] = set()
    waiting = [*parts]
    while waiting:
        step = waiting.pop()
        if step in seen:
            continue
        seen.add(step)
        yield step
        tools = "root" if step.builder in IN_A_ROOT else None
        waiting += (one.derivation for role, one in step.inputs.items() if role != tools)
