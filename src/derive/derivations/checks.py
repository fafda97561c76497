# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a declaration beyond its form: what it takes from locks, patches and files, and odd paths.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from derive.content import key_path
from derive.derivations.declarations import (
    BytecodeDecl,
    ComposeDecl,
    DebianRootDecl,
    PatchDecl,
    ScriptDecl,
    SourceFrom,
    UnpackDecl,
    WheelFrom,
    WheelsDecl,
)
from derive.derivations.scope import Declared, Names, Scope, absent
from derive.errors import Problem
from derive.lock.documents import DebianLock, PythonLock
from derive.sandbox.checks import check_command, check_environment, check_inputs
from derive.sandbox.request import PLATFORM_VARIABLES, Script
from derive.trees.listing import ListingError, check_path

FILES = "files"
"""The input under which a script finds the small sources that stand beside it."""


def content_problems(scope: Scope, known: Names, name: str, declared: Declared) -> Iterator[Problem]:
    """Yield every problem of one declaration, its references to other derivations apart."""
    declaration = declared.declaration
    where = f"{declared.file}: {name}"
    match declaration:
        case UnpackDecl(source=source):
            yield from _set_problems(scope, source.set, f"{where}.from.set", wheels=isinstance(source, WheelFrom))
            lock = scope.locks.get(source.set)
            if isinstance(source, SourceFrom) and isinstance(lock, DebianLock):
                names = {entry.name for entry in lock.sources}
                if source.source not in names:
                    yield absent(f"{where}.from.source", "source package in the lock", source.source, names)
        case PatchDecl(series=series):
            if series not in known.series:
                yield absent(f"{where}.series", "series under patches/", series, known.series)
        case ScriptDecl():
            yield from _script_problems(scope, declared, declaration, where)
        case WheelsDecl():
            yield from _set_problems(scope, declaration.set, f"{where}.set", wheels=True)
        case DebianRootDecl():
            yield from _set_problems(scope, declaration.set, f"{where}.set", wheels=False)
            lock = scope.locks.get(declaration.set)
            if isinstance(lock, DebianLock) and declaration.closure not in lock.closures:
                yield absent(f"{where}.closure", "closure in the lock", declaration.closure, lock.closures)
        case BytecodeDecl(paths=paths):
            for index, path in enumerate(paths):
                yield from _path_problems(path, f"{where}.paths[{index}]")
        case ComposeDecl():
            yield from _compose_problems(declaration, where)


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


def _set_problems(scope: Scope, name: str, where: str, *, wheels: bool) -> Iterator[Problem]:
    wanted = PythonLock if wheels else DebianLock
    if not any(path in scope.project.files for path in (f"lock/{name}.toml", f"lock/{name}.lock.json")):
        names = [path[len("lock/") : -len(".toml")] for path in scope.project.files if _is_wish(path)]
        yield absent(where, "lock set", name, names)
    elif name in scope.locks and not isinstance(scope.locks[name], wanted):
        yield Problem(where=where, message=f"lock set {name} is not a {'python' if wheels else 'debian'} set")


def _is_wish(path: str) -> bool:
    return path.startswith("lock/") and path.endswith(".toml")


def _at(problems: Iterable[Problem], where: str) -> Iterator[Problem]:
    return (replace(problem, where=where) for problem in problems)
