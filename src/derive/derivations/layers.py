# SPDX-License-Identifier: Apache-2.0
"""What an image's layers are made of: one of each entry, or as many as its split says.

Core: no IO. Imports pydantic through the declarations.

The layers of a split follow from names of packages: which packages there are decides which layers there are, and what
is in a package decides only what is in its own. The lowest are those that change least.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import Json
from derive.derivations import steps
from derive.derivations.declarations import DebianRootDecl, WheelsDecl
from derive.derivations.model import DEBIAN_ARCHITECTURE, BuiltInput, Derivation, Identity
from derive.derivations.scope import Scope, absent
from derive.errors import Problem
from derive.images.declarations import ImageDecl, SplitDecl
from derive.images.split import BASE, MOST, own_output, shared_output, shared_place
from derive.lock.documents import DebianLock, PythonLock, WheelEntry, target_name

_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer of an image. ``optional`` ones are left out of it when they are empty.

    ``wheels`` are those whose streams it may carry, their unpacked trees named by ``identity``; ``select`` says which
    leaves are in it; those of ``elsewhere`` are in another layer.
    """

    name: str
    trees: Sequence[Derivation | BuiltInput]
    wheels: Sequence[WheelEntry] = ()
    identity: Identity = "nar"
    elsewhere: BuiltInput | None = None
    select: Json = None
    optional: bool = False


def wheel_layers(name: str, split: SplitDecl, tree: Derivation, wheels: Sequence[WheelEntry]) -> Iterator[Layer]:
    """Yield the layers of a union of wheels: what is native, what several wheels give, shared layers, packages.

    ``tree`` is the union, whose inputs are the wheels' own trees by name.
    """
    entries = {entry.name: entry for entry in sorted(wheels, key=lambda entry: entry.name)}
    trees = {one: _built(tree.inputs[one].derivation) for one in entries}
    common: BuiltInput | None = None
    if len(trees) > 1:
        parts = {f"part.{one}": part for one, part in trees.items()}
        common = _built(steps.split(f"{tree.name} common", {"by": "several"}, parts))
    own = [one for one in entries if one in split.own]
    patterns = sorted(set(split.native))
    for one in own if patterns else ():
        yield _of(f"{name}/{one} native", [trees[one]], [entries[one]], common, _select(patterns, native=True))
    if common is not None:
        yield _of(f"{name}/common", [common])
    for number, members in _shared(entries.keys() - set(own), split.shared):
        given = [trees[one] for one in members]
        yield _of(f"{name}/{shared_output(number)}", given, [entries[one] for one in members], common)
    for one in own:
        yield _of(f"{name}/{one}", [trees[one]], [entries[one]], common, _select(patterns, native=False))


def package_layers(name: str, split: SplitDecl, root: Derivation) -> Iterator[Layer]:
    """Yield the layers of a Debian root: packages, shared layers, and last what no single package owns."""
    packages = {role.rpartition(":")[0] for role in root.inputs}
    own = sorted(packages & set(split.own))
    how: dict[str, Json] = {"by": "package", "own": own, "shared": split.shared}
    cut = steps.split(f"{root.name} split", how, {"tree": _built(root)})
    for one in own:
        yield _of(f"{name}/{one}", [BuiltInput(cut, own_output(one))])
    for number, _ in _shared(packages - set(own), split.shared):
        yield _of(f"{name}/{shared_output(number)}", [BuiltInput(cut, shared_output(number))])
    yield _of(f"{name}/base", [BuiltInput(cut, BASE)])


def _of(
    name: str,
    trees: Sequence[BuiltInput],
    wheels: Sequence[WheelEntry] = (),
    elsewhere: BuiltInput | None = None,
    select: Json = None,
) -> Layer:
    return Layer(name=name, trees=trees, wheels=wheels, elsewhere=elsewhere, select=select, optional=True)


def _select(patterns: Sequence[str], *, native: bool) -> Json:
    """Return which leaves of a wheel are in a layer, as the layer's argument; None where all are."""
    return {"patterns": patterns, "fit": native} if patterns else None


def _built(derivation: Derivation) -> BuiltInput:
    return BuiltInput(derivation)


def _shared(packages: Collection[str], shared: int) -> list[tuple[int, list[str]]]:
    """Return the shared layers that have packages, each with these."""
    found: dict[int, list[str]] = {}
    for package in sorted(packages):
        found.setdefault(shared_place(package, shared), []).append(package)
    return sorted(found.items())


def layer_problems(scope: Scope) -> Iterator[Problem]:
    """Yield what is wrong with the splits of all images, and where an image would have too many layers."""
    for name, image in scope.images.items():
        where = f"images/{name}.toml: layers"
        for index, layer in enumerate(image.layers):
            if layer.split is not None:
                yield from _split_problems(scope, image, layer.parts, layer.split, f"{where}[{index}]")
        counts = {layer.name: 1 if layer.split is None else _most(layer.split) for layer in image.layers}
        total = sum(counts.values())
        if total > MOST:
            split = [f"{layer.name}  up to {counts[layer.name]}" for layer in image.layers if layer.split is not None]
            message = f"up to {total} layers, and an image has at most {MOST}"
            yield Problem(where=where, message=message, detail=tuple(split), hint="let more packages share layers")


def _most(split: SplitDecl) -> int:
    """Return how many layers a split makes at most: one more than its packages', with what is no single package's."""
    return len(split.own) * (2 if split.native else 1) + split.shared + 1


def _split_problems(
    scope: Scope, image: ImageDecl, parts: Sequence[str], split: SplitDecl, where: str
) -> Iterator[Problem]:
    if len(parts) != 1:
        message = f"a layer that is split has one derivation, and this has {len(parts)}"
        yield Problem(where=f"{where}.from", message=message)
        return
    declared = scope.declared.get(parts[0])
    if declared is None:
        return  # said where it is named
    declaration = declared.declaration
    if not isinstance(declaration, WheelsDecl | DebianRootDecl):
        message = f"{parts[0]} cannot be split: only wheels and debian-root are made of packages"
        yield Problem(where=f"{where}.from[0]", message=message)
        return
    if split.native and isinstance(declaration, DebianRootDecl):
        message = f"{parts[0]} is a debian-root: native is for wheels"
        yield Problem(where=f"{where}.split.native", message=message)
    elif split.native and not split.own:
        message = "decides nothing: it is for packages of own, and there are none"
        yield Problem(where=f"{where}.split.native", message=message)
    packages = _packages(scope, image, declaration)
    if packages is not None:
        yield from _name_problems(packages, declaration, split, f"{where}.split")


def _name_problems(
    packages: Mapping[str, Collection[str]], declaration: WheelsDecl | DebianRootDecl, split: SplitDecl, where: str
) -> Iterator[Problem]:
    known = {name for names in packages.values() for name in names}
    left_out = declaration.without if isinstance(declaration, WheelsDecl) else {}
    for index, name in enumerate(split.own):
        place = f"{where}.own[{index}]"
        if name in left_out:
            yield Problem(where=place, message=f"{name} is left out by without", hint="take it out of one of the two")
        elif name not in known:
            yield absent(place, f"package of the lock set {declaration.set}", name, known)
    left = sorted(known - set(split.own))
    if left and not split.shared:
        more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        message = f"no layer for {', '.join(left[:_NAMED])}{more}"
        yield Problem(where=f"{where}.shared", message=message, hint="say over how many layers they are spread")


def _packages(
    scope: Scope, image: ImageDecl, declaration: WheelsDecl | DebianRootDecl
) -> Mapping[str, Collection[str]] | None:
    """Return the packages by architecture, as far as the lock has them; None where there is no lock, which is said."""
    lock = scope.locks.get(declaration.set)
    architectures = [DEBIAN_ARCHITECTURE[platform] for platform in image.platforms]
    match declaration, lock:
        case WheelsDecl(python=python, without=left_out), PythonLock():
            there = [one for one in architectures if target_name(python, one) in lock.targets]
            return {one: {entry.name for entry in lock.target(python, one)} - left_out.keys() for one in there}
        case DebianRootDecl(closure=closure), DebianLock():
            there = [one for one in architectures if one in lock.closures.get(closure, {})]
            return {one: {entry.name for entry in lock.closure(closure, one)} for one in there}
        case _:
            return None
