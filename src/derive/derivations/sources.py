# SPDX-License-Identifier: Apache-2.0
"""What declarations take from locks: archives that are unpacked, trees of upstreams, the wheels of a set.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, assert_never

from derive.derivations import steps
from derive.derivations.declarations import (
    DebFrom,
    GitFrom,
    HuggingFaceFrom,
    OciFrom,
    SourceDecl,
    SourceFrom,
    UnpackDecl,
    UrlFrom,
    WheelFrom,
)
from derive.derivations.model import DEBIAN_ARCHITECTURE, Derivation, Platform
from derive.derivations.scope import Scope
from derive.derivations.upstreams import fetch_url, git_tree, huggingface_tree, oci_tree
from derive.errors import InputErrors, expected_got
from derive.lock.documents import DebianLock, PythonLock, SourceEntry, SourceFile, WheelEntry, target_name
from derive.lock.upstreams.entries import GitEntry, OciEntry, UpstreamsLock, UrlEntry
from derive.lock.upstreams.wishes import UpstreamsWish

E = TypeVar("E")


def unpacked(scope: Scope, name: str, decl: UnpackDecl, host: Platform, where: str) -> Derivation:
    """Return the step that unpacks an artifact of a lock.

    Raises:
        InputErrors: when the lock has no such artifact for the platform, or has no pin for it.
    """
    match decl.source:
        case SourceFrom(set=set_name, source=source, part=part):
            entry = next(entry for entry in debian_lock(scope, set_name).sources if entry.name == source)
            file = _part(entry, part)
            if file is None:
                raise InputErrors.one(f"{source} has no {part} file", where=f"{where}.part")
            return steps.unpack(name, decl.kind, steps.fetch_source(entry, file), strip=decl.strip, expected={})
        case UrlFrom(set=set_name, url=url):
            upstream = _upstreams(scope, set_name).upstream(url, UrlEntry, where=where)
            archive = fetch_url(upstream, _wish(scope, set_name))
            if decl.kind == "file":
                return steps.unpacked(name, "file", {"archive": steps.reference(archive)}, path=upstream.file)
            return steps.unpack(name, decl.kind, archive, strip=decl.strip, expected={})
        case DebFrom(set=set_name, deb=deb):
            architecture = DEBIAN_ARCHITECTURE[host]
            debs = debian_lock(scope, set_name).debs
            found = [one for one in debs if one.name == deb and one.architecture in (architecture, "all")]
            message = f"the lock set {set_name} has no package {deb} for {architecture}"
            return steps.unpack_deb(_one(found, f"{where}.deb", message))
        case WheelFrom(set=set_name, wheel=wheel, python=python):
            named = [one for one in wheels(scope, set_name, python, host, where) if one.name == wheel]
            message = f"the lock set {set_name} has no wheel {wheel} for Python {python} on {host}"
            return steps.unpack_wheel(_one(named, f"{where}.wheel", message), decl.identity)
        case _:
            assert_never(decl.source)


def source(scope: Scope, decl: SourceDecl, host: Platform, where: str) -> Derivation:
    """Return the tree of an upstream; raises InputErrors when it is not there or has no pin."""
    lock, wish = _upstreams(scope, decl.source.set), _wish(scope, decl.source.set)
    match decl.source:
        case GitFrom(git=name):
            file = f"lock/{decl.source.set}.lock.json"
            return git_tree(lock.upstream(name, GitEntry, where=where), wish, where=file)
        case OciFrom(oci=name):
            return oci_tree(lock.upstream(name, OciEntry, where=where), host, where=where)
        case HuggingFaceFrom(huggingface=name, files=files):
            return huggingface_tree(lock, name, files, where=f"{where}.files")
        case _:
            assert_never(decl.source)


def wheels(scope: Scope, name: str, python: str, host: Platform, where: str) -> Sequence[WheelEntry]:
    """Return the wheels of a set for one Python and platform; raises InputErrors where the lock has none."""
    lock = scope.locks[name]
    assert isinstance(lock, PythonLock)
    architecture = DEBIAN_ARCHITECTURE[host]
    target = target_name(python, architecture)
    if target not in lock.targets:
        raise InputErrors.one(
            f"the lock set {name} has no wheels for Python {python} on {host}",
            where=where,
            detail=expected_got(target, ", ".join(sorted(lock.targets))),
        )
    return lock.target(python, architecture)


def debian_lock(scope: Scope, name: str) -> DebianLock:
    """Return the lock of a Debian set, which the scope has checked to be one."""
    lock = scope.locks[name]
    assert isinstance(lock, DebianLock)
    return lock


def _upstreams(scope: Scope, name: str) -> UpstreamsLock:
    lock = scope.locks[name]
    assert isinstance(lock, UpstreamsLock)
    return lock


def _wish(scope: Scope, name: str) -> UpstreamsWish:
    wish = scope.wishes[name]
    assert isinstance(wish, UpstreamsWish)
    return wish


def _one(found: Sequence[E], where: str, message: str) -> E:
    if len(found) != 1:
        raise InputErrors.one(message, where=where)
    return found[0]


def _part(entry: SourceEntry, part: str) -> SourceFile | None:
    """Return the file of a source package that is its ``orig``, ``debian`` or ``dsc`` part."""
    for file in entry.files:
        is_part = file.file.endswith(".dsc") if part == "dsc" else f".{part}.tar." in file.file
        if is_part and not file.file.endswith(".asc"):
            return file
    return None
