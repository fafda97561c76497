# SPDX-License-Identifier: Apache-2.0
"""From names to derivations: what a declared name means on a platform.

Core: no IO. Imports pydantic through the declarations.

A tool root is evaluated for the platform that programs run on; everything else for the platform of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, assert_never

from derive.canonical import Digest, Json, escape
from derive.derivations import kernels, steps
from derive.derivations.convert import root_document
from derive.derivations.declarations import (
    BytecodeDecl,
    ComposeDecl,
    DebFrom,
    DebianRootDecl,
    Declaration,
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
from derive.derivations.model import DEBIAN_ARCHITECTURE, TRIPLET, Derivation, Platform
from derive.derivations.scope import Declared, Scope, absent, references
from derive.derivations.upstreams import fetch_url, git_tree, huggingface_tree, oci_tree
from derive.errors import InputErrors, Problem, expected_got
from derive.images.convert import image_config, mode_table
from derive.images.declarations import ImageDecl
from derive.images.members import Encoding
from derive.images.oci import OVERLAY_LABEL
from derive.kernels.units import Unit
from derive.lock.documents import DebianLock, PythonLock, SourceEntry, SourceFile, WheelEntry, target_name
from derive.lock.upstreams.entries import GitEntry, OciEntry, UpstreamsLock, UrlEntry
from derive.lock.upstreams.wishes import UpstreamsWish
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
        return steps.image(f"{name}-dev", base.host, marked, modes, [*layers, added], root)

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
        modes = self._collect(lambda: mode_table(image, f"images/{name}.toml: modes").to_document())
        config = self._collect(lambda: image_config(image, f"images/{name}.toml: config").to_document())
        encoding = Encoding(name=image.encoding.name, level=image.encoding.level).to_document()
        layers: list[Derivation] = []
        everything: list[tuple[str, str, Derivation]] = []
        for layer in image.layers:
            trees = [self._node(part, host) for part in layer.parts]
            present = [tree for tree in trees if tree is not None]
            layers.append(steps.layer(f"{name} layer {layer.name}", present, modes, encoding))
            parts = zip(layer.parts, present, strict=False)
            everything += [(f"{layer.name}/{part}", "", tree) for part, tree in parts]
        if self._problems or modes is None or config is None:
            return None
        root = steps.composed(f"{name} root", everything, {})
        return steps.image(name, host, config, modes, layers, root)

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
                return self._collect(lambda: self._source(declaration, host, where))
            case UnpackDecl():
                return self._unpack(name, declared, declaration, host)
            case PatchDecl():
                source = self._node(declaration.source, host)
                patches = self._scope.series[declaration.series].patches
                labels = [f"patches/{declaration.series}/{patch.name}" for patch in patches]
                return source and steps.patched(name, source, series_document(patches), labels)
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

    def _unpack(self, name: str, declared: Declared, decl: UnpackDecl, host: Platform) -> Derivation | None:
        where = f"{declared.file}: {name}.from"
        match decl.source:
            case SourceFrom(set=set_name, source=source, part=part):
                lock = self._debian(set_name)
                entry = next(entry for entry in lock.sources if entry.name == source)
                file = _part(entry, part)
                if file is None:
                    self._problems.append(Problem(where=f"{where}.part", message=f"{source} has no {part} file"))
                    return None
                return steps.unpack(name, decl.kind, steps.fetch_source(entry, file), strip=decl.strip, expected={})
            case UrlFrom(set=set_name, url=url):
                upstream = self._collect(lambda: self._upstreams(set_name).upstream(url, UrlEntry, where=where))
                if upstream is None:
                    return None
                archive = fetch_url(upstream, self._wish(set_name))
                if decl.kind == "file":
                    return steps.unpacked(name, "file", {"archive": steps.reference(archive)}, path=upstream.file)
                return steps.unpack(name, decl.kind, archive, strip=decl.strip, expected={})
            case DebFrom(set=set_name, deb=deb):
                architecture = DEBIAN_ARCHITECTURE[host]
                found = self._one(
                    [
                        e
                        for e in self._debian(set_name).debs
                        if e.name == deb and e.architecture in (architecture, "all")
                    ],
                    f"{where}.deb",
                    f"the lock set {set_name} has no package {deb} for {architecture}",
                )
                return steps.unpack_deb(found) if found is not None else None
            case WheelFrom(set=set_name, wheel=wheel, python=python):
                wheels = self._target(set_name, python, host, where)
                wheel_entry = self._one(
                    [e for e in wheels or () if e.name == wheel],
                    f"{where}.wheel",
                    f"the lock set {set_name} has no wheel {wheel} for Python {python} on {host}",
                )
                return steps.unpack_wheel(wheel_entry) if wheel_entry is not None else None

    def _source(self, decl: SourceDecl, host: Platform, where: str) -> Derivation:
        lock, wish = self._upstreams(decl.source.set), self._wish(decl.source.set)
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

    def _upstreams(self, name: str) -> UpstreamsLock:
        lock = self._scope.locks[name]
        assert isinstance(lock, UpstreamsLock)
        return lock

    def _wish(self, name: str) -> UpstreamsWish:
        wish = self._scope.wishes[name]
        assert isinstance(wish, UpstreamsWish)
        return wish

    def _debian_root(self, name: str, declared: Declared, decl: DebianRootDecl, host: Platform) -> Derivation | None:
        architecture = DEBIAN_ARCHITECTURE[host]
        lock = self._debian(decl.set)
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
            wheels = self._target(decl.set, python, host, f"{declared.file}: {name}.set")
            chosen = [wheel for wheel in wheels or () if wheel.name not in decl.without]
            parts = [(one.name, "", steps.installed_wheel(one, python, root, self._build)) for one in chosen]
            return None if wheels is None else steps.composed(name, parts, {})
        source = self._node(decl.source, host)
        if source is None:
            return None
        if isinstance(decl, InstallWheelDecl):
            return steps.installed(name, name, source, python, root, self._build, labels=(source.name,))
        paths, exclude = ([path.strip("/") for path in some] for some in (decl.paths, decl.exclude))
        return steps.bytecode(name, source, root, python=python, paths=paths, exclude=exclude, build=self._build)

    def _kernels(
        self, name: str, declared: Declared, decl: KernelSourcesDecl | KernelsDecl, host: Platform
    ) -> Derivation | None:
        if isinstance(decl, KernelSourcesDecl):
            return kernels.sources(self._scope, name, decl)
        root, where = self._node(decl.root, self._build), f"{declared.file}: {name}"
        return root and self._collect(lambda: kernels.cache(self._scope, name, where, decl, root, host))

    def _debian(self, name: str) -> DebianLock:
        lock = self._scope.locks[name]
        assert isinstance(lock, DebianLock)
        return lock

    def _target(self, name: str, python: str, host: Platform, where: str) -> Sequence[WheelEntry] | None:
        lock = self._scope.locks[name]
        assert isinstance(lock, PythonLock)
        architecture = DEBIAN_ARCHITECTURE[host]
        target = target_name(python, architecture)
        if target in lock.targets:
            return lock.target(python, architecture)
        detail = expected_got(target, ", ".join(sorted(lock.targets)))
        message = f"the lock set {name} has no wheels for Python {python} on {host}"
        self._problems.append(Problem(where=where, message=message, detail=detail))
        return None

    def _one(self, found: Sequence[E], where: str, message: str) -> E | None:
        if len(found) == 1:
            return found[0]
        self._problems.append(Problem(where=where, message=message))
        return None


def _part(entry: SourceEntry, part: str) -> SourceFile | None:
    """Return the file of a source package that is its ``orig``, ``debian`` or ``dsc`` part."""
    for file in entry.files:
        is_part = file.file.endswith(".dsc") if part == "dsc" else f".{part}.tar." in file.file
        if is_part and not file.file.endswith(".asc"):
            return file
    return None
