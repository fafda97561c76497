# SPDX-License-Identifier: Apache-2.0
"""Resolving a set of wheels: uv chooses versions for each target, and for each version the best wheel is taken.

Edge: uv, the network, the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, DeriveError, InputErrors, Problem, Unavailable, UpstreamGone
from derive.lock.contents import WheelFacts, metadata_of_wheel, open_blob, open_spans, wheel_facts
from derive.lock.documents import PythonLock, WheelEntry, target_name
from derive.lock.keep import Keep, stays
from derive.lock.tags import best, ranks
from derive.lock.tools import Tools
from derive.lock.uv import Target, compile_target
from derive.lock.wishes import PythonWish, wish_digest
from derive.net.names import normalise
from derive.net.places import Wanted, WheelFile
from derive.net.simple import SimpleFile

if TYPE_CHECKING:
    from packaging.pylock import Package

_SMALL = 4 << 20
"""Wheels up to so many bytes are fetched whole for their metadata; of larger ones only the end is read."""

_SPAN = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """The wheel taken for a project; ``size`` in bytes, None where the index does not say."""

    name: str
    version: str
    file: str
    sha256: Digest
    size: int | None

    def wanted(self) -> Wanted:
        locator = WheelFile(project=self.name, file=self.file)
        return Wanted(name=self.name, version=self.version, locator=locator, sha256=self.sha256, size=self.size)


def resolve_python(
    wish: PythonWish, *, name: str, where: str, locked: PythonLock | None, keep: Keep, tools: Tools
) -> PythonLock:
    """Find the wheels of every target, keeping what ``keep`` says of what is locked.

    ``where`` is the wish file, named in problems.

    Raises:
        InputErrors: no solution, or a version without a wheel for a target.
        Unavailable: the index, or uv, is not there.
    """
    indices = tools.mirrors.python()
    targets: dict[str, tuple[_Choice, ...]] = {}
    problems: list[Problem] = []
    for python in sorted(wish.pythons):
        for architecture in sorted(wish.architectures):
            target = Target(python=python, architecture=architecture)
            preferred = _preferred(locked, target, keep)
            packages = compile_target(wish, target, where=where, indices=indices, preferred=preferred)
            chosen, found = choose(packages, target, wish.glibc, where)
            targets[target_name(python, architecture)] = chosen
            problems.extend(found)
    if problems:
        raise InputErrors(problems)
    distinct = {choice.file: choice for chosen in targets.values() for choice in chosen}
    known = {entry.sha256: entry for entry in locked.wheels} if locked else {}
    with ThreadPoolExecutor(max_workers=8) as pool:
        entries = list(pool.map(lambda choice: _entry(choice, known, tools), distinct.values()))
    return PythonLock(
        set=name,
        wish=wish_digest(wish),
        wheels=tuple(sorted(entries, key=lambda entry: entry.key)),
        targets={target: tuple(sorted(choice.file for choice in chosen)) for target, chosen in targets.items()},
    )


def choose(
    packages: Sequence[Package], target: Target, glibc: str, where: str
) -> tuple[tuple[_Choice, ...], list[Problem]]:
    """Take the best wheel of each package for a target; a package without one is a problem."""
    accepted = ranks(target.python, target.architecture, glibc)
    subject = f"Python {target.python} on {target.architecture}"
    chosen: list[_Choice] = []
    problems: list[Problem] = []
    for package in packages:
        wheels = {wheel.filename: wheel for wheel in package.wheels or ()}
        file = best(wheels, accepted)
        version = str(package.version)
        if file is None:
            problems.append(Problem(where=where, message=f"{package.name} {version} has no wheel for {subject}"))
            continue
        digest = wheels[file].hashes.get("sha256")
        if digest is None:
            problems.append(Problem(where=where, message=f"the index states no SHA-256 of {file}"))
            continue
        name = normalise(package.name)
        chosen.append(_Choice(name=name, version=version, file=file, sha256=Digest(digest), size=wheels[file].size))
    return tuple(chosen), problems


def _preferred(locked: PythonLock | None, target: Target, keep: Keep) -> Mapping[str, str]:
    if locked is None or target_name(target.python, target.architecture) not in locked.targets:
        return {}
    entries = locked.target(target.python, target.architecture)
    return {entry.name: entry.version for entry in entries if stays(keep, entry.name)}


def _entry(choice: _Choice, known: Mapping[Digest, WheelEntry], tools: Tools) -> WheelEntry:
    before = known.get(choice.sha256)
    if before is not None and before.file == choice.file:
        return before
    facts = _facts(choice, tools)
    size = choice.size
    if size is None:
        size = tools.store.blob_size(tools.fetcher.fetch(choice.wanted()))
    return WheelEntry(
        name=choice.name,
        version=choice.version,
        file=choice.file,
        size=size,
        sha256=choice.sha256,
        licence=facts.licence,
        requires_python=facts.requires_python,
    )


def _facts(choice: _Choice, tools: Tools) -> WheelFacts:
    """Read a wheel's METADATA as cheaply as the index allows: served beside it, the end of a large one, or whole."""
    if not tools.store.has_blob(choice.sha256):
        listed = next((item for item in _listed(choice, tools) if item.file == choice.file), None)
        if listed is not None and listed.metadata is not None:
            data = tools.fetcher.read_small(listed.url + ".metadata")
            if sha256(data) == listed.metadata:
                return wheel_facts(data)
        if listed is not None and choice.size is not None and choice.size > _SMALL:
            remote = _remote_facts(listed.url, choice.size, tools)
            if remote is not None:
                return remote
    digest = tools.fetcher.fetch(choice.wanted())
    with open_blob(tools.store, digest) as file:
        return wheel_facts(metadata_of_wheel(file))


def _listed(choice: _Choice, tools: Tools) -> tuple[SimpleFile, ...]:
    try:
        return tools.fetcher.project(choice.name)
    except (UpstreamGone, Unavailable):
        return ()


def _remote_facts(url: str, size: int, tools: Tools) -> WheelFacts | None:
    def read(offset: int, count: int) -> bytes:
        data = tools.fetcher.read_span(url, f"bytes={offset}-{offset + count - 1}")
        if len(data) != count:
            raise Corrupt(f"a piece of {count} bytes came as {len(data)}")
        return data

    try:
        with open_spans(size, read, _SPAN) as file:
            return wheel_facts(metadata_of_wheel(file))
    except DeriveError:
        return None
