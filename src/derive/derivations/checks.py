# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a declaration beyond its form: what it takes from locks, patches and files, and odd paths.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from derive.content import key_path
from derive.derivations.declarations import (
    BytecodeDecl,
    ComposeDecl,
    DebFrom,
    DebianRootDecl,
    GitFrom,
    HuggingFaceFrom,
    InstallWheelDecl,
    KernelsDecl,
    KernelSourcesDecl,
    OciFrom,
    PatchDecl,
    ScriptDecl,
    SourceDecl,
    SourceFrom,
    UnpackDecl,
    UrlFrom,
    WheelFrom,
    WheelsDecl,
)
from derive.derivations.kernels import kernel_problems
from derive.derivations.scope import Declared, Names, Scope, absent
from derive.errors import Problem
from derive.lock.documents import DebianLock, PythonLock
from derive.lock.upstreams.entries import UpstreamsLock
from derive.patches.load import LoadedSeries
from derive.patches.model import reads, removes, writes
from derive.sandbox.checks import check_command, check_environment, check_inputs
from derive.sandbox.request import PLATFORM_VARIABLES, Script
from derive.trees.listing import ListingError, check_path

_RECORD = re.compile(rb"[^/]+\.dist-info/RECORD", re.IGNORECASE)

FILES = "files"
"""The input under which a script finds the small sources that stand beside it."""


def content_problems(scope: Scope, known: Names, name: str, declared: Declared) -> Iterator[Problem]:
    """Yield every problem of one declaration, its references to other derivations apart."""
    declaration = declared.declaration
    where = f"{declared.file}: {name}"
    match declaration:
        case SourceDecl() | UnpackDecl():
            yield from _from_problems(scope, declaration.source, f"{where}.from")
        case PatchDecl(series=series):
            if series not in known.series:
                yield absent(f"{where}.series", "series under patches/", series, known.series)
        case ScriptDecl():
            yield from _script_problems(scope, declared, declaration, where)
        case WheelsDecl():
            yield from set_problems(scope, declaration.set, f"{where}.set", PythonLock)
            yield from _without_problems(scope, declaration, where)
            yield from _drop_problems(scope, declaration, where)
            yield from _patches_problems(scope, known, declaration, where)
        case DebianRootDecl():
            yield from set_problems(scope, declaration.set, f"{where}.set", DebianLock)
            lock = scope.locks.get(declaration.set)
            if isinstance(lock, DebianLock) and declaration.closure not in lock.closures:
                yield absent(f"{where}.closure", "closure in the lock", declaration.closure, lock.closures)
        case BytecodeDecl(paths=paths):
            for index, path in enumerate(paths):
                yield from _path_problems(path, f"{where}.paths[{index}]")
        case ComposeDecl():
            yield from _compose_problems(declaration, where)
        case KernelsDecl() | KernelSourcesDecl():
            yield from kernel_problems(scope, known, declaration, where)
        case InstallWheelDecl():
            pass


def _from_problems(
    scope: Scope,
    source: DebFrom | SourceFrom | WheelFrom | UrlFrom | GitFrom | OciFrom | HuggingFaceFrom,
    where: str,
) -> Iterator[Problem]:
    lock = scope.locks.get(source.set)
    match source:
        case WheelFrom():
            yield from set_problems(scope, source.set, f"{where}.set", PythonLock)
        case DebFrom() | SourceFrom():
            yield from set_problems(scope, source.set, f"{where}.set", DebianLock)
            if isinstance(source, SourceFrom) and isinstance(lock, DebianLock):
                names = {entry.name for entry in lock.sources}
                if source.source not in names:
                    yield absent(f"{where}.source", "source package in the lock", source.source, names)
        case UrlFrom() | GitFrom() | OciFrom() | HuggingFaceFrom():
            yield from set_problems(scope, source.set, f"{where}.set", UpstreamsLock)
            key, upstream = upstream_of(source)
            if isinstance(lock, UpstreamsLock):
                named = {entry.name for entry in lock.upstreams if entry.type == key}
                if upstream not in named:
                    yield absent(f"{where}.{key}", f"{key} upstream in the lock", upstream, named)
        case _:
            assert_never(source)


def _script_problems(scope: Scope, declared: Declared, decl: ScriptDecl, where: str) -> Iterator[Problem]:
    folder = declared.file.removesuffix(".toml")
    for key, file in [("script", decl.script), *((f"files[{i}]", f) for i, f in enumerate(decl.files))]:
        data = scope.script(declared, file)
        if data is None:
            yield Problem(where=f"{where}.{key}", message=f"no file {folder}/{file}")
        elif key == "script":
            yield from _text_problems(data, f"{folder}/{file}")
    for variable in decl.environment:
        place = f"{where}.{key_path(('environment', variable))}"
        if variable in PLATFORM_VARIABLES:
            yield Problem(where=place, message="the sandbox sets this variable itself", hint="choose another name")
        else:
            yield from _at(check_environment({variable: decl.environment[variable]}), place)
    for role in decl.inputs:
        place = f"{where}.{key_path(('inputs', role))}"
        yield from _at(check_inputs([role]), place)
        if role == FILES and decl.files:
            yield Problem(where=place, message="the script finds its files under this name", hint="choose another")


def _text_problems(data: bytes, file: str) -> Iterator[Problem]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        yield Problem(where=file, message=f"not UTF-8, at byte {error.start}")
    else:
        yield from _at(check_command(Script(text=text)), file)


def _without_problems(scope: Scope, decl: WheelsDecl, where: str) -> Iterator[Problem]:
    lock = scope.locks.get(decl.set)
    names = {entry.name for entry in lock.wheels} if isinstance(lock, PythonLock) else set(decl.without)
    for name in decl.without:
        if name not in names:
            yield absent(f"{where}.{key_path(('without', name))}", "wheel in the lock", name, names)


def _drop_problems(scope: Scope, decl: WheelsDecl, where: str) -> Iterator[Problem]:
    lock = scope.locks.get(decl.set)
    names = {entry.name for entry in lock.wheels} if isinstance(lock, PythonLock) else set(decl.drop)
    for name in decl.drop:
        place = f"{where}.{key_path(('drop', name))}"
        if name not in names:
            yield absent(place, "wheel in the lock", name, names)
        if name in decl.without:
            hint = "take it out of one of the two"
            yield Problem(where=place, message="files of a wheel that is left out by without", hint=hint)


def _patches_problems(scope: Scope, known: Names, decl: WheelsDecl, where: str) -> Iterator[Problem]:
    lock = scope.locks.get(decl.set)
    names = {entry.name for entry in lock.wheels} if isinstance(lock, PythonLock) else set(decl.patches)
    for name, series in decl.patches.items():
        place = f"{where}.{key_path(('patches', name))}"
        if name not in names:
            yield absent(place, "wheel in the lock", name, names)
        if name in decl.without:
            hint = "take it out of one of the two"
            yield Problem(where=place, message="a series for a wheel that is left out by without", hint=hint)
        if series not in known.series:
            yield absent(place, "series under patches/", series, known.series)
        elif series in scope.series:
            yield from _record_problems(scope.series[series], series)


def _record_problems(loaded: LoadedSeries, series: str) -> Iterator[Problem]:
    """Yield a problem for each patch of a wheel that changes RECORD."""
    for patch in loaded.patches:
        paths = {path for one in patch.operations for path in (reads(one), writes(one), removes(one)) if path}
        if any(_RECORD.fullmatch(path) for path in paths):
            hint = "leave RECORD out of the patch: --only names the paths that are looked at"
            message = "changes RECORD, which is written anew when the wheel is installed"
            yield Problem(where=f"patches/{series}/{patch.name}", message=message, hint=hint)


def _compose_problems(decl: ComposeDecl, where: str) -> Iterator[Problem]:
    names = [part.source for part in decl.parts]
    for index, part in enumerate(decl.parts):
        if part.source in names[:index]:
            yield Problem(where=f"{where}.parts[{index}].from", message=f"{part.source} a second time")
        if part.at.strip("/"):
            yield from _path_problems(part.at, f"{where}.parts[{index}].at")
    for path, winner in decl.wins.items():
        place = f"{where}.{key_path(('wins', path))}"
        yield from _path_problems(path, place)
        if winner not in names:
            yield absent(place, "part", winner, names)


def _path_problems(path: str, where: str) -> Iterator[Problem]:
    try:
        check_path(path.strip("/").encode("utf-8"))
    except ListingError as error:
        yield Problem(where=where, message=str(error))


def upstream_of(source: GitFrom | OciFrom | HuggingFaceFrom | UrlFrom) -> tuple[str, str]:
    """Return the key that names an upstream in a ``from`` table, and the name."""
    match source:
        case GitFrom(git=name):
            return "git", name
        case OciFrom(oci=name):
            return "oci", name
        case HuggingFaceFrom(huggingface=name):
            return "huggingface", name
        case UrlFrom(url=name):
            return "url", name
        case _:
            assert_never(source)


def set_problems(
    scope: Scope, name: str, where: str, wanted: type[DebianLock | PythonLock | UpstreamsLock]
) -> Iterator[Problem]:
    """Yield what is wrong with a lock set's name where one of a kind is wanted."""
    if not any(path in scope.project.files for path in (f"lock/{name}.toml", f"lock/{name}.lock.json")):
        names = [path[len("lock/") : -len(".toml")] for path in scope.project.files if _is_wish(path)]
        yield absent(where, "lock set", name, names)
    elif name in scope.locks and not isinstance(scope.locks[name], wanted):
        yield Problem(where=where, message=f"lock set {name} is not of kind {wanted.kind}")


def _is_wish(path: str) -> bool:
    return path.startswith("lock/") and path.endswith(".toml")


def _at(problems: Iterable[Problem], where: str) -> Iterator[Problem]:
    return (replace(problem, where=where) for problem in problems)
