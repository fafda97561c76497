# SPDX-License-Identifier: Apache-2.0
"""Everything that a project declares, parsed, with every wrong reference found before anything is evaluated.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.content import key_path
from derive.derivations.declarations import (
    NAME,
    BytecodeDecl,
    ComposeDecl,
    DebianRootDecl,
    Declaration,
    InstallWheelDecl,
    KernelsDecl,
    KernelSourcesDecl,
    PatchDecl,
    ScriptDecl,
    SourceDecl,
    UnpackDecl,
    WheelsDecl,
    parse_declarations,
)
from derive.errors import InputErrors, Problem
from derive.images.declarations import ImageDecl, parse_image
from derive.kernels.declarations import KernelDecl
from derive.kernels.load import FOLDER, load_kernels
from derive.lock.documents import Lock, check_against
from derive.lock.read import parse_lock
from derive.lock.wishes import Wish, parse_wish, wish_digest
from derive.patches.load import LoadedSeries, series_of
from derive.words import near

if TYPE_CHECKING:
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
    wishes: Mapping[str, Wish]
    series: Mapping[str, LoadedSeries]
    kernels: Mapping[str, KernelDecl]

    def script(self, declared: Declared, name: str) -> bytes | None:
        """Return a file from the folder that belongs to a derivations file."""
        return self.project.files.get(f"{declared.file.removesuffix('.toml')}/{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Every name that the project gives, also where what it names is wrong: a reference to it is no second problem.

    ``derivations`` is None where a file could not be read, and any name may stand in it.
    """

    derivations: frozenset[str] | None
    images: frozenset[str]
    series: frozenset[str]
    kernels: frozenset[str]


def load_scope(project: Project) -> Scope:
    """Parse and check all that a project declares.

    Raises:
        InputErrors: every problem found, each with file and key path.
    """
    from derive.derivations.bases import base_problems
    from derive.derivations.checks import content_problems
    from derive.derivations.layers import layer_problems

    problems: list[Problem] = []
    declared, names = _declared(project, problems)
    locks, wishes = _locks(project, problems)
    kernels = load_kernels(project.below(FOLDER))
    problems.extend(kernels.problems)
    scope = Scope(
        project=project,
        declared=declared,
        images=_images(project, problems),
        locks=locks,
        wishes=wishes,
        series=_series(project, problems),
        kernels=kernels.kernels,
    )
    known = Names(
        derivations=names,
        images=frozenset(_image_files(project)),
        series=frozenset(_upstreams(project)),
        kernels=kernels.names,
    )
    problems.extend(_reference_problems(scope, known))
    for name, one in declared.items():
        problems.extend(content_problems(scope, known, name, one))
    problems.extend(layer_problems(scope))
    problems.extend(base_problems(scope, known))
    if problems:
        raise InputErrors(problems)
    return scope


def _declared(project: Project, problems: list[Problem]) -> tuple[dict[str, Declared], frozenset[str] | None]:
    found: dict[str, Declared] = {}
    names: set[str] = set()
    complete = True
    for name, data in project.below("derivations").items():
        if "/" in name or not name.endswith(".toml"):
            continue
        file = f"derivations/{name}"
        parsed = parse_declarations(data, file)
        problems.extend(parsed.problems)
        complete = complete and bool(parsed.names or not parsed.problems)
        names |= parsed.names
        for key, declaration in parsed.declarations.items():
            if key in found:
                problems.append(Problem(where=f"{file}: {key}", message=f"declared in {found[key].file} already"))
            found[key] = Declared(file, declaration)
    return found, frozenset(names) if complete else None


def _image_files(project: Project) -> dict[str, bytes]:
    """Return the image files by the name of the image; what stands below ``verify`` decides no byte of one."""
    files = project.below("images")
    named = {name: data for name, data in files.items() if name.endswith(".toml") and not name.startswith("verify/")}
    return {name.removesuffix(".toml"): data for name, data in named.items()}


def _images(project: Project, problems: list[Problem]) -> dict[str, ImageDecl]:
    found: dict[str, ImageDecl] = {}
    for name, data in _image_files(project).items():
        if not NAME.fullmatch(name):
            hint = "use lower-case letters, digits and . _ + -, and no folder"
            problems.append(Problem(where=f"images/{name}.toml", message="not a name for an image", hint=hint))
        image, wrong = parse_image(data, f"images/{name}.toml")
        problems.extend(wrong)
        if image is not None:
            found[name] = image
    return found


def _locks(project: Project, problems: list[Problem]) -> tuple[dict[str, Lock], dict[str, Wish]]:
    files = project.below("lock")
    found: dict[str, Lock] = {}
    wishes: dict[str, Wish] = {}
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
            wishes[key] = wish
            problems.extend(check_against(lock, wish_digest(wish), wish_file=f"lock/{name}"))
    return found, wishes


def _upstreams(project: Project) -> list[str]:
    return sorted({path.split("/", 1)[0] for path in project.below("patches") if "/" in path})


def _series(project: Project, problems: list[Problem]) -> dict[str, LoadedSeries]:
    found: dict[str, LoadedSeries] = {}
    for upstream in _upstreams(project):
        try:
            found[upstream] = series_of(project.below(f"patches/{upstream}"), f"patches/{upstream}")
        except InputErrors as error:
            problems.extend(error.problems())
    return found


def _reference_problems(scope: Scope, known: Names) -> Iterator[Problem]:
    wanted = [
        (f"{declared.file}: {name}.{key}", target)
        for name, declared in scope.declared.items()
        for key, target in references(declared.declaration)
    ]
    wanted += [
        (f"images/{name}.toml: layers[{index}].from[{position}]", target)
        for name, image in scope.images.items()
        for index, layer in enumerate(image.layers)
        for position, target in enumerate(layer.parts)
    ]
    if known.derivations is not None:
        for where, target in wanted:
            if target not in known.derivations:
                yield absent(where, "derivation", target, known.derivations)
    yield from _cycles(scope)
    default = scope.project.settings.default_image
    if default and default not in known.images:
        yield absent("pyproject.toml: tool.derive.default-image", "image", default, known.images)


def references(declaration: Declaration) -> Iterator[tuple[str, str]]:
    """Yield (key path, name) of every derivation that a declaration names."""
    match declaration:
        case PatchDecl():
            yield "from", declaration.source
        case ScriptDecl():
            yield "root", declaration.root
            for role, target in declaration.inputs.items():
                yield key_path(("inputs", role)), target
        case WheelsDecl() | KernelsDecl():
            yield "root", declaration.root
        case BytecodeDecl() | InstallWheelDecl():
            yield "from", declaration.source
            yield "root", declaration.root
        case ComposeDecl():
            for index, part in enumerate(declaration.parts):
                yield f"parts[{index}].from", part.source
        case SourceDecl() | UnpackDecl() | DebianRootDecl() | KernelSourcesDecl():
            pass


def absent(where: str, what: str, name: str, known: Collection[str], hint: str | None = None) -> Problem:
    """Return the problem of a name that nothing has, with the name that may have been meant, or else a hint."""
    return Problem(where=where, message=f"no {what} is named {name!r}", hint=near(name, known) or hint)


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
