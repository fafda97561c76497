# SPDX-License-Identifier: Apache-2.0
"""Wheels: everything that each asks for is installed at a version that it admits, for this platform and Python.

Core: no IO.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from derive.canonical import escape
from derive.verify.findings import Finding, Rule
from derive.verify.image import ImageTree, Installed

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_SITE = re.compile(rb"python3\.([0-9]+)/(?:dist|site)-packages")
_MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What wishes say: the requirements asked for, the versions that win, the wheels left out; each with its reason."""

    wanted: tuple[str, ...] = ()
    overrides: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)


def requirement_findings(image: ImageTree, resolution: Resolution) -> Iterator[Finding]:
    """Yield requirements that are not met, and wheels that are not for the image's Python."""
    from packaging.utils import canonicalize_name

    wheels: dict[str, Installed] = {canonicalize_name(one.facts.name): one for one in image.wheels}
    extras = _extras(wheels, image, resolution.wanted)
    for name, wheel in wheels.items():
        environment = _environment(image, wheel)
        yield from _python_findings(wheel, environment)
        for text in wheel.facts.requires:
            requirement = _parsed(text)
            if requirement is None:
                what = "a requirement that cannot be read"
                yield _finding(wheel, what, about=text, hint="say in an exception what it means")
            elif any(_applies(requirement, environment, extra) for extra in ("", *sorted(extras[name]))):
                yield from _unmet(wheel, requirement, wheels, resolution)


def _unmet(
    wheel: Installed,
    requirement: Requirement,
    wheels: Mapping[str, Installed],
    resolution: Resolution,
) -> Iterator[Finding]:
    from packaging.utils import canonicalize_name

    name = canonicalize_name(requirement.name)
    found = wheels.get(name)
    asked = f"{requirement.name}{requirement.specifier}"
    if found is None:
        if name not in resolution.without:
            hint = "add it to the lock set, or leave it out by name with the reason"
            yield _finding(wheel, f"needs {asked}, which is not installed", about=name, expected=asked, hint=hint)
        return
    if requirement.specifier.contains(found.facts.version, prereleases=True):
        return
    version, _ = resolution.overrides.get(name, (None, ""))
    if version is None or not _same(version, found.facts.version):
        yield _finding(
            wheel,
            f"needs {asked}, and another version is installed",
            about=name,
            expected=asked,
            got=found.facts.version,
            hint="resolve the lock set again, or override the version there with the reason",
        )


def _python_findings(wheel: Installed, environment: Mapping[str, str]) -> Iterator[Finding]:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    asked, python = wheel.facts.requires_python, environment["python_full_version"]
    try:
        fits = asked is None or SpecifierSet(asked).contains(python, prereleases=True)
    except InvalidSpecifier:
        fits = False
    if not fits:
        what = "not for the image's Python"
        hint = "take a version for that Python"
        yield _finding(wheel, what, about="python", expected=str(asked), got=python, hint=hint)


def _extras(wheels: Mapping[str, Installed], image: ImageTree, wanted: Iterable[str]) -> dict[str, set[str]]:
    """Return which extras of each wheel are asked for: by the wishes, by other wheels, and by those extras in turn."""
    from packaging.utils import canonicalize_name

    extras: dict[str, set[str]] = {name: set() for name in wheels}
    waiting = [one for one in map(_parsed, wanted) if one is not None]
    environments = {name: _environment(image, wheel) for name, wheel in wheels.items()}
    parsed = {name: [r for r in map(_parsed, wheel.facts.requires) if r is not None] for name, wheel in wheels.items()}
    waiting += [one for name in wheels for one in parsed[name] if _applies(one, environments[name], "")]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in {canonicalize_name(text) for text in requirement.extras} - extras.get(name, set()):
            if name in extras:
                extras[name].add(extra)
                waiting += [one for one in parsed[name] if _applies(one, environments[name], extra)]
    return extras


def _applies(requirement: Requirement, environment: Mapping[str, str], extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({**environment, "extra": extra})


def _environment(image: ImageTree, wheel: Installed) -> dict[str, str]:
    """Return what markers are evaluated with: the Python whose folder the wheel lies in, on the image's platform."""
    found = _SITE.search(wheel.site)
    python = f"3.{found[1].decode()}" if found else "3"
    full = next((_upstream(one.facts.version) for one in image.packages if one.facts.name == f"python{python}"), python)
    return {
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": "posix",
        "platform_machine": _MACHINES[image.platform],
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": full,
        "python_version": python,
        "sys_platform": "linux",
    }


def _upstream(version: str) -> str:
    """Return the upstream part of a Debian package's version."""
    found = re.match(r"(?:[0-9]+:)?([0-9]+(?:\.[0-9]+)*)", version)
    return found[1] if found else version


@lru_cache(maxsize=8192)
def _parsed(text: str) -> Requirement | None:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def _same(one: str, other: str) -> bool:
    from packaging.utils import canonicalize_version

    return canonicalize_version(one) == canonicalize_version(other)


def _finding(
    wheel: Installed,
    what: str,
    *,
    about: str,
    expected: str = "",
    got: str = "",
    hint: str = "",
) -> Finding:
    return Finding(
        rule=Rule.REQUIREMENT,
        path="/" + escape(wheel.info),
        owner=wheel.owner,
        what=what,
        about=about,
        expected=expected,
        got=got,
        hint=hint,
    )
