# SPDX-License-Identifier: Apache-2.0
"""Everything that a project declares, parsed, with every wrong reference found before anything is evaluated.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from derive.derivations.declarations import (
    BytecodeDecl,
    ComposeDecl,
    DebianRootDecl,
    Declaration,
    PatchDecl,
    ScriptDecl,
    SourceFrom,
    UnpackDecl,
    WheelFrom,
    WheelsDecl,
    parse_declarations,
)
from derive.errors import InputErrors, Problem
from derive.images.declarations import ImageDecl, parse_image
from derive.lock.documents import DebianLock, Lock, PythonLock, check_against
from derive.lock.read import parse_lock
from derive.lock.wishes import parse_wish, wish_digest
from derive.patches.load import LoadedSeries, series_of
from derive.project import Project


@dataclass(frozen=True, slots=True)
class Declared:
    """A declaration and the file that it stands in."""

    file: str
    declaration: Declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A project's declarations by name. ``series`` maps upstreams to their patches, in order."""

    project: Project
    declared: Mapping[str, Declared]
    images: Mapping[str, ImageDecl]
    locks: Mapping[str, Lock]
    series: Mapping[str, LoadedSeries]

    def script(self, declared: Declared, name: str) -> bytes | None:
        """Return a file from the folder that belongs to a derivations file."""
        return self.project.files.get(f"{declared.file.removesuffix('.toml')}/{name}")


def load_scope(project: Project) -> Scope:
    """Parse and check all that a project declares.

    Raises:
        InputErrors: every problem found, each with file and key path.
    """
    problems: list[Problem] = []
    scope = Scope(
        project=project,
        declared=_declared(project, problems),
        images=_images(project, problems),
        locks=_locks(project, problems),
        series=_series(project, problems),
    )
    problems.extend(_reference_problems(scope))
    if problems:
        raise InputErrors(problems)
    return scope


def _declared(project: Project, problems: list[Problem]) -> dict[str, Declared]:
    found: dict[str, Declared] = {}
    for name, data in project.below("derivations").items():
        if "/" in name or not name.endswith(".toml"):
            continue
        file = f"derivations/{name}"
        declarations, wrong = parse_declarations(data, file)
        problems.extend(wrong)
        for key, declaration in declarations.items():
            if key in found:
                problems.append(Problem(where=f"{file}: {key}", message=f"declared in {found[key].file} already"))
            found[key] = Declared(file, declaration)
    return found


def _images(project: Project, problems: list[Problem]) -> dict[str, ImageDecl]:
    found: dict[str, ImageDecl] = {}
    for name, data in project.below("images").items():
        if name.endswith(".toml"):
            image, wrong = parse_image(data, f"images/{name}")
            problems.extend(wrong)
            if image is not None:
                found[name.removesuffix(".toml")] = image
    return found


def _locks(project: Project, problems: list[Problem]) -> dict[str, Lock]:
    files = project.below("lock")
    found: dict[str, Lock] = {}
    for name, data in files.items():
        if "/" in name or not name.endswith(".toml"):
            continue
        key = name.removesuffix(".toml")
        wish, wrong = parse_wish(data, f"lock/{name}")
        problems.extend(wrong)
        lock_name = f"{key}.lock.json"
        if lock_name not in files:
            hint = f"run: derive lock {key}"
            problems.append(Problem(where=f"lock/{lock_name}", message="missing: this set has no pins", hint=hint))
            continue
        lock, wrong = parse_lock(files[lock_name], f"lock/{lock_name}")
        problems.extend(wrong)
        if lock is None:
            continue
        found[key] = lock
        if wish is not None:
            problems.extend(check_against(lock, wish_digest(wish), wish_file=f"lock/{name}"))
    return found


def _series(project: Project, problems: list[Problem]) -> dict[str, LoadedSeries]:
    found: dict[str, LoadedSeries] = {}
    files = project.below("patches")
    for upstream in sorted({path.split("/", 1)[0] for path in files if "/" in path}):
        try:
            found[upstream] = series_of(project.below(f"patches/{upstream}"), f"patches/{upstream}")
        except InputErrors as error:
            problems.extend(error.problems())
    return found


def _reference_problems(scope: Scope) -> Iterator[Problem]:
    for name, declared in scope.declared.items():
        where = f"{declared.file}: {name}"
        for key, target in references(declared.declaration):
            if target not in scope.declared:
                yield _absent(f"{where}.{key}", "derivation", target, scope.declared)
        yield from _content_problems(scope, declared, where)
    for name, image in scope.images.items():
        for index, layer in enumerate(image.layers):
            for position, target in enumerate(layer.parts):
                if target not in scope.declared:
                    where = f"images/{name}.toml: layers[{index}].from[{position}]"
                    yield _absent(where, "derivation", target, scope.declared)
    yield from _cycles(scope)
    default = scope.project.settings.default_image
    if default not in scope.images:
        yield _absent("pyproject.toml: tool.derive.default-image", "image", default, scope.images)


def references(declaration: Declaration) -> Iterator[tuple[str, str]]:
    """Yield (key path, name) of every derivation that a declaration names."""
    match declaration:
        case PatchDecl():
            yield "from", declaration.source
        case ScriptDecl():
            yield "root", declaration.root
            for role, target in declaration.inputs.items():
                yield f"inputs.{role}", target
        case WheelsDecl():
            yield "root", declaration.root
        case BytecodeDecl():
            yield "from", declaration.source
            yield "root", declaration.root
        case ComposeDecl():
            for index, part in enumerate(declaration.parts):
                yield f"parts[{index}].from", part.source
        case UnpackDecl() | DebianRootDecl():
            pass


def _content_problems(scope: Scope, declared: Declared, where: str) -> Iterator[Problem]:
    """Problems with what a declaration takes from locks, patches and script files."""
    declaration = declared.declaration
    match declaration:
        case UnpackDecl(source=source):
            yield from _set_problems(scope, source.set, f"{where}.from.set", wheels=isinstance(source, WheelFrom))
            lock = scope.locks.get(source.set)
            if isinstance(source, SourceFrom) and isinstance(lock, DebianLock):
                names = {entry.name for entry in lock.sources}
                if source.source not in names:
                    yield _absent(f"{where}.from.source", "source package in the lock", source.source, names)
        case PatchDecl(series=series):
            if series not in scope.series:
                yield _absent(f"{where}.series", "series under patches/", series, scope.series)
        case ScriptDecl(script=script, files=files):
            folder = declared.file.removesuffix(".toml")
            for key, file in [("script", script), *((f"files[{i}]", f) for i, f in enumerate(files))]:
                if scope.script(declared, file) is None:
                    yield Problem(where=f"{where}.{key}", message=f"no file {folder}/{file}")
        case WheelsDecl():
            yield from _set_problems(scope, declaration.set, f"{where}.set", wheels=True)
        case DebianRootDecl():
            yield from _set_problems(scope, declaration.set, f"{where}.set", wheels=False)
            lock = scope.locks.get(declaration.set)
            if isinstance(lock, DebianLock) and declaration.closure not in lock.closures:
                yield _absent(f"{where}.closure", "closure in the lock", declaration.closure, lock.closures)
        case BytecodeDecl() | ComposeDecl():
            pass


def _set_problems(scope: Scope, name: str, where: str, *, wheels: bool) -> Iterator[Problem]:
    wanted = PythonLock if wheels else DebianLock
    if not any(path in scope.project.files for path in (f"lock/{name}.toml", f"lock/{name}.lock.json")):
        yield _absent(where, "lock set", name, scope.locks)
    elif name in scope.locks and not isinstance(scope.locks[name], wanted):
        yield Problem(where=where, message=f"lock set {name} is not a {'python' if wheels else 'debian'} set")


def _absent(where: str, what: str, name: str, known: object) -> Problem:
    from difflib import get_close_matches

    names = sorted(known) if isinstance(known, Mapping | set) else []
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else None
    return Problem(where=where, message=f"no {what} is named {name!r}", hint=hint)


def _cycles(scope: Scope) -> Iterator[Problem]:
    state: dict[str, int] = {}  # 1: on the path now, 2: done
    for start in sorted(scope.declared):
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                state[name] = 2
                path.pop()
                continue
            if state.get(name) == 1:
                loop = [*path[path.index(name) :], name]
                yield Problem(where=f"{scope.declared[name].file}: {name}", message=f"a cycle: {' -> '.join(loop)}")
                continue
            if state.get(name) == 2 or name not in scope.declared:
                continue
            state[name] = 1
            path.append(name)
            stack.append((name, True))
            stack.extend((target, False) for _, target in references(scope.declared[name].declaration))
