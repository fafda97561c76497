# SPDX-License-Identifier: Apache-2.0
"""From names to derivations: what a declared name means on a platform.

Core: no IO. Imports pydantic through the declarations.

A tool root is evaluated for the platform that programs run on; everything else for the platform of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from derive.canonical import Digest, Json, escape
from derive.derivations import kernels, sources, steps
from derive.derivations.bases import Below, fetched_base, upon
from derive.derivations.convert import root_document
from derive.derivations.declarations import (
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
)
from derive.derivations.layers import Layer, package_layers, wheel_layers
from derive.derivations.model import DEBIAN_ARCHITECTURE, TRIPLET, BuiltInput, Derivation, Identity, Platform
from derive.derivations.scope import Declared, Scope, absent, references
from derive.errors import InputErrors, Problem, expected_got
from derive.images import capabilities
from derive.images.convert import image_config, mode_table
from derive.images.declarations import ImageDecl, LayerDecl
from derive.images.encoding import Encoding
from derive.images.oci import OVERLAY_LABEL
from derive.kernels.units import Unit
from derive.lock.documents import WheelEntry
from derive.patches.identity import series_document
from derive.sandbox.spec import sandbox_settings

E = TypeVar("E")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """A tree of the store that is laid over an image; ``at`` is the folder it is put in, empty for the root."""

    name: str
    at: str
    tree: Digest


LIST = "what there is: derive show"
"""The hint where a name is not there, and none is near it."""


class Evaluator:
    """Evaluates names of one scope; each name and platform once. Problems are gathered, and raised together."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._build = scope.project.settings.build_platform
        self._found: dict[tuple[str, Platform], Derivation | None] = {}
        self._problems: list[Problem] = []

    def derivation(self, name: str, host: Platform) -> Derivation:
        """Return what a declared name means for a platform.

        Raises:
            InputErrors: everything in its closure that cannot be evaluated for that platform.
        """
        if name not in self._scope.declared:
            raise InputErrors([absent("derivations/", "derivation", name, self._scope.declared, LIST)])
        found = self._node(name, host)
        return self._checked(found)

    def image(self, name: str, platform: Platform | None) -> Derivation:
        """Return an image's last step for a platform, or for the one that its file names as default.

        Raises:
            InputErrors: as :meth:`derivation`, and for a platform that the image does not have.
        """
        image = self._scope.images.get(name)
        if image is None:
            raise InputErrors([absent("images/", "image", name, self._scope.images, LIST)])
        host: Platform = platform or image.default_platform
        if host not in image.platforms:
            raise InputErrors.one(
                f"the image {name} is not made for {host}",
                where=f"images/{name}.toml: platforms",
                detail=expected_got(" or ".join(image.platforms), host),
            )
        return self._checked(self._image(name, image, host))

    def dev_image(self, name: str, platform: Platform | None, overlays: Sequence[Overlay]) -> Derivation:
        """Return an image's last step with work trees laid over it in one more layer; raises as :meth:`image`."""
        base = self.image(name, platform)
        image = self._scope.images[name]
        layers = [reference.derivation for role, reference in base.inputs.items() if role.startswith("blob.")]
        parts = [
            (f"{index} {one.name}", one.at, steps.work_tree(one.name, one.tree)) for index, one in enumerate(overlays)
        ]
        tree = steps.composed(f"{name} overlay", parts, {})
        encoding = Encoding(name=image.encoding.name, level=image.encoding.level).to_document()
        config = base.arguments["config"]
        assert isinstance(config, Mapping)
        labels = config["labels"]
        assert isinstance(labels, Mapping)
        shown = " ".join(f"/{one.at}={one.tree}" for one in overlays)
        marked = {**config, "labels": {**labels, OVERLAY_LABEL: shown}}
        modes = base.arguments["modes"]
        added = steps.layer(f"{name} layer overlay", [tree], modes, encoding)
        # The root is the base's: an overlay is there to put other files in the place of the image's.
        root = base.inputs["root"].derivation
        optional = base.arguments.get("optional", ())
        assert isinstance(optional, Sequence)
        places = [index for index in optional if isinstance(index, int)]
        file = f"images/{name}.toml"
        below = {role: base.inputs[role] for role in ("base", "own") if role in base.inputs}
        made = [*layers, added]
        return steps.image(f"{name}-dev", base.host, marked, modes, made, root, optional=places, file=file, base=below)

    def kernel_units(
        self, kernel_names: Sequence[str], gpus: Sequence[str] | None = None
    ) -> list[tuple[Unit, Derivation]]:
        """Return what is compiled of some kernels, each with the step that compiles it for its GPU.

        Raises:
            InputErrors: when something of that name is not there, or nothing says in which root.
        """
        units, decl = kernels.units(self._scope, kernel_names, gpus), kernels.compiler(self._scope)
        root = self._checked(self._node(decl.root, self._build))
        return [(unit, kernels.device(self._scope, unit, root, decl)) for unit in units]

    def kernel_unit(self, name: str, host: Platform | None) -> Derivation:
        """Return the step that compiles a unit for its GPU or, for a platform, for a host; raises as the above."""
        unit, decl = kernels.unit_named(self._scope, name), kernels.compiler(self._scope)
        root = self._checked(self._node(decl.root, self._build))
        return kernels.part(self._scope, unit, root, decl, host)

    def _checked(self, found: Derivation | None) -> Derivation:
        if self._problems or found is None:
            problems, self._problems = self._problems, []
            self._found.clear()
            raise InputErrors(problems)
        return found

    def _image(self, name: str, image: ImageDecl, host: Platform) -> Derivation | None:
        below = self._below(name, image, host)
        image = image if below is None else upon(name, self._scope)
        modes = self._collect(lambda: mode_table(image, f"images/{name}.toml: modes").to_document())
        config = self._collect(lambda: image_config(image, f"images/{name}.toml: config").to_document())
        encoding = Encoding(name=image.encoding.name, level=image.encoding.level).to_document()
        made: list[Layer] = []
        everything: list[tuple[str, str, Derivation]] = []
        for layer in image.layers:
            trees = {part: self._node(part, host) for part in layer.parts}
            present = {part: tree for part, tree in trees.items() if tree is not None}
            made += self._layers(layer, present, host)
            everything += self._parts(layer, present)
        if self._problems or modes is None or config is None:
            return None
        layers = [
            steps.layer(
                f"{name} layer {one.name}",
                one.trees,
                modes,
                encoding,
                wheels=one.wheels,
                identity=one.identity,
                elsewhere=one.elsewhere,
                select=one.select,
            )
            for one in made
        ]
        # Made to be checked, and of parts that are large where they are split: nothing else reads all of it.
        is_split = any(layer.split is not None for layer in image.layers)
        identity: Identity = "facts" if is_split or (below is not None and below.by_facts) else "nar"
        own = root = steps.composed(f"{name} root" if below is None else f"{name} own", everything, {}, identity)
        if below is not None:
            parts = [(f"base {below.name}", "", below.root), (f"layers of {name}", "", own)]
            root = steps.composed(f"{name} root", parts, {}, identity)
        where = f"images/{name}.toml: capabilities"
        self._problems.extend(capabilities.problems(image.capabilities, [root], where))
        environment = image.config.environment
        self._problems.extend(capabilities.environment_problems(image.capabilities, environment, where))
        if self._problems:
            return None
        optional = [index for index, one in enumerate(made) if one.optional]
        needed = capabilities.files(image.capabilities)
        base = None if below is None else {"base": below.manifest, "own": BuiltInput(own)}
        pinned = None if below is None else below.pinned
        return steps.image(
            name, host, config, modes, layers, root, optional=optional, needed=needed, base=base, base_digest=pinned
        )

    def _below(self, name: str, image: ImageDecl, host: Platform) -> Below | None:
        """Return what an image is made upon, None where it is made upon nothing, or what it is cannot be had."""
        if image.base is None:
            return None
        if isinstance(image.base, str):
            other, _, digest = image.base.partition("@")
            made = self._image(other, self._scope.images[other], host)
            return None if made is None else Below.of_image(made, digest)
        locked, where = image.base, f"images/{name}.toml: base"
        return self._collect(lambda: fetched_base(self._scope, locked, host, where))

    def _layers(self, layer: LayerDecl, trees: Mapping[str, Derivation], host: Platform) -> Iterable[Layer]:
        """Return the layers that one entry of an image file makes of its parts' trees."""
        wheels = {part: self._wheels(part, host) for part in trees}
        if layer.split is None:
            everything = [entry for entries in wheels.values() for entry in entries]
            # Of two declarations that differ, the identity with which every tree can be had.
            identities = {decl.identity for part in trees if isinstance(decl := self._declaration(part), WheelsDecl)}
            identity: Identity = "facts" if identities == {"facts"} else "nar"
            return [Layer(name=layer.name, trees=list(trees.values()), wheels=everything, identity=identity)]
        made: list[Layer] = []
        for part, tree in trees.items():
            decl = self._declaration(part)
            if isinstance(decl, WheelsDecl):
                split = wheel_layers(layer.name, layer.split, tree, wheels[part])
                made += (replace(one, identity=decl.identity) for one in split)
            else:
                made += package_layers(layer.name, layer.split, tree)
        return made

    def _parts(self, layer: LayerDecl, trees: Mapping[str, Derivation]) -> Iterable[tuple[str, str, Derivation]]:
        """Return what an entry gives to the union of all layers: wheels that are split one by one, united only here."""
        for part, tree in trees.items():
            name = f"{layer.name}/{part}"
            if layer.split is not None and isinstance(self._declaration(part), WheelsDecl):
                yield from ((f"{name}/{one}", "", reference.derivation) for one, reference in tree.inputs.items())
            else:
                yield name, "", tree

    def _declaration(self, name: str) -> Declaration:
        return self._scope.declared[name].declaration

    def _wheels(self, name: str, host: Platform) -> Sequence[WheelEntry]:
        """Return the wheels of which a declaration makes a union; none for any other declaration."""
        declared = self._scope.declared[name]
        decl = declared.declaration
        if not isinstance(decl, WheelsDecl):
            return ()
        where = f"{declared.file}: {name}.set"
        wheels = self._collect(lambda: sources.wheels(self._scope, decl.set, decl.python, host, where))
        return [wheel for wheel in wheels or () if wheel.name not in decl.without]

    def _collect(self, make: Callable[[], E]) -> E | None:
        """Return what a function makes, or gather what it finds wrong."""
        try:
            return make()
        except InputErrors as error:
            self._problems.extend(error.problems())
            return None

    def _node(self, name: str, host: Platform) -> Derivation | None:
        """Return what a name means, after everything that it names: however long the chain, nothing recurses."""
        wanted = self._key(name, host)
        stack = [wanted]
        while stack:
            key = stack[-1]
            ahead = () if key in self._found else [one for one in self._named_by(key) if one not in self._found]
            stack.extend(ahead)
            if not ahead:
                stack.pop()
                if key not in self._found:
                    self._found[key] = self._make(key[0], self._scope.declared[key[0]], key[1])
        return self._found[wanted]

    def _key(self, name: str, host: Platform) -> tuple[str, Platform]:
        declaration = self._scope.declared[name].declaration
        forced = declaration.host if isinstance(declaration, ScriptDecl) else None
        return name, forced or host

    def _named_by(self, key: tuple[str, Platform]) -> list[tuple[str, Platform]]:
        named = references(self._scope.declared[key[0]].declaration)
        return [self._key(name, self._build if role == "root" else key[1]) for role, name in named]

    def _make(self, name: str, declared: Declared, host: Platform) -> Derivation | None:
        declaration: Declaration = declared.declaration
        match declaration:
            case SourceDecl():
                where = f"{declared.file}: {name}.from"
                return self._collect(lambda: sources.source(self._scope, declaration, host, where))
            case UnpackDecl():
                where = f"{declared.file}: {name}.from"
                return self._collect(lambda: sources.unpacked(self._scope, name, declaration, host, where))
            case PatchDecl():
                source = self._node(declaration.source, host)
                return source and self._patched(name, source, declaration.series, declaration.identity)
            case ScriptDecl():
                return self._script(name, declared, declaration, host)
            case DebianRootDecl():
                return self._debian_root(name, declared, declaration, host)
            case WheelsDecl() | InstallWheelDecl() | BytecodeDecl():
                root = self._node(declaration.root, self._build)
                return root and self._installed(name, declared, declaration, root, host)
            case KernelSourcesDecl() | KernelsDecl():
                return self._kernels(name, declared, declaration, host)
            case ComposeDecl():
                trees = [self._node(part.source, host) for part in declaration.parts]
                parts = [(p.source, p.at.strip("/"), t) for p, t in zip(declaration.parts, trees, strict=True) if t]
                return steps.composed(name, parts, declaration.wins)

    def _script(self, name: str, declared: Declared, decl: ScriptDecl, host: Platform) -> Derivation | None:
        root = self._node(decl.root, self._build)
        inputs = {role: self._node(target, host) for role, target in decl.inputs.items()}
        if root is None or any(tree is None for tree in inputs.values()):
            return None
        fixed = {
            "DERIVE_HOST": host,
            "DERIVE_HOST_TRIPLET": TRIPLET[host],
            "DERIVE_BUILD_TRIPLET": TRIPLET[self._build],
        }
        arguments: dict[str, Json] = {
            "script": self._text(declared, decl.script),
            "files": {file: self._text(declared, file) for file in decl.files},
            "environment": {**decl.environment, **fixed},
            "allow": [item.model_dump() for item in decl.allow],
            "sandbox": sandbox_settings(),
        }
        return steps.script(
            name,
            arguments=arguments,
            root=root,
            inputs={role: tree for role, tree in inputs.items() if tree is not None},
            build=self._build,
            host=host,
            timeout_s=decl.timeout,
        )

    def _text(self, declared: Declared, file: str) -> str:
        return escape(self._scope.script(declared, file) or b"")

    def _debian_root(self, name: str, declared: Declared, decl: DebianRootDecl, host: Platform) -> Derivation | None:
        architecture = DEBIAN_ARCHITECTURE[host]
        lock = sources.debian_lock(self._scope, decl.set)
        closure = lock.closures[decl.closure]
        if architecture not in closure:
            where = f"lock/{decl.set}.toml: closures.{decl.closure}.architectures"
            detail = expected_got(architecture, ", ".join(sorted(closure)))
            self._problems.append(
                Problem(
                    where=where, message=f"{name} is needed for {host}, which this closure does not have", detail=detail
                )
            )
            return None
        root, problems = root_document(decl, architecture, f"{declared.file}: {name}")
        self._problems.extend(problems)
        return steps.debian_root(name, host, root, lock.closure(decl.closure, architecture))

    def _installed(
        self,
        name: str,
        declared: Declared,
        decl: WheelsDecl | InstallWheelDecl | BytecodeDecl,
        root: Derivation,
        host: Platform,
    ) -> Derivation | None:
        python = decl.python
        if isinstance(decl, WheelsDecl):
            parts = [(one.name, "", self._wheel(one, decl, root)) for one in self._wheels(name, host)]
            return steps.composed(name, parts, {}, decl.identity)
        source = self._node(decl.source, host)
        if source is None:
            return None
        if isinstance(decl, InstallWheelDecl):
            return steps.installed(name, name, source, python, root, self._build, labels=(source.name,))
        paths, exclude = ([path.strip("/") for path in some] for some in (decl.paths, decl.exclude))
        return steps.bytecode(name, source, root, python=python, paths=paths, exclude=exclude, build=self._build)

    def _wheel(self, entry: WheelEntry, decl: WheelsDecl, root: Derivation) -> Derivation:
        series = decl.patches.get(entry.name)
        name, unpacked = steps.patched_wheel(entry), steps.unpack_wheel(entry, decl.identity)
        patched = self._patched(name, unpacked, series, decl.identity) if series else None
        drop = tuple(decl.drop.get(entry.name, ()))
        return steps.installed_wheel(entry, decl.python, root, self._build, patched, drop, decl.identity)

    def _patched(self, name: str, source: Derivation, series: str, identity: Identity = "nar") -> Derivation:
        patches = self._scope.series[series].patches
        labels = [f"patches/{series}/{patch.name}" for patch in patches]
        return steps.patched(name, source, series_document(patches), labels, identity)

    def _kernels(
        self, name: str, declared: Declared, decl: KernelSourcesDecl | KernelsDecl, host: Platform
    ) -> Derivation | None:
        if isinstance(decl, KernelSourcesDecl):
            return kernels.sources(self._scope, name, decl)
        root, where = self._node(decl.root, self._build), f"{declared.file}: {name}"
        return root and self._collect(lambda: kernels.cache(self._scope, name, where, decl, root, host))
