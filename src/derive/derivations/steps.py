# SPDX-License-Identifier: Apache-2.0
"""One function per kind of step: from locked entries and other derivations to a derivation.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derive.build.builders import VERSIONS
from derive.canonical import Digest, Json
from derive.derivations.model import BuiltInput, Derivation, FixedInput, Input, Platform
from derive.lock.documents import DebEntry, SourceEntry, SourceFile, WheelEntry
from derive.sandbox.spec import sandbox_settings


def step(
    name: str,
    builder: str,
    arguments: Mapping[str, Json],
    inputs: Mapping[str, Input],
    *,
    build: Platform = "any",
    host: Platform = "any",
    labels: tuple[str, ...] = (),
    places: tuple[str, ...] = (),
    timeout_s: int | None = None,
) -> Derivation:
    """Return a step of this engine's version of a builder."""
    return Derivation(
        name=name,
        builder=builder,
        version=VERSIONS[builder],
        build=build,
        host=host,
        arguments=arguments,
        inputs=inputs,
        labels=labels,
        places=places,
        timeout_s=timeout_s,
    )


def reference(derivation: Derivation) -> Input:
    """Return how others take what a derivation gives: a fetch by its hash alone."""
    return BuiltInput(derivation) if derivation.fixed is None else FixedInput(derivation)


def fetch(name: str, builder: str, arguments: Mapping[str, Json], *, places: tuple[str, ...] = ()) -> Derivation:
    """Fetch something of an upstream; ``places`` are URLs that its wish gives."""
    return step(name, builder, arguments, {}, places=places)


def work_tree(name: str, tree: Digest) -> Derivation:
    """Take a folder that was put into the store; nobody serves it."""
    return step(f"work tree {name}", "fetch-work-tree", {"nar": tree.hex}, {})


def fetch_deb(entry: DebEntry) -> Derivation:
    """Fetch one binary package."""
    arguments: dict[str, Json] = {
        "name": entry.name,
        "version": entry.version,
        "architecture": entry.architecture,
        "suite": entry.suite,
        "locator": entry.locator,
        "size": entry.size,
        "sha256": entry.sha256.hex,
    }
    return step(f"{entry.file}", "fetch-deb", arguments, {})


def fetch_source(entry: SourceEntry, file: SourceFile) -> Derivation:
    """Fetch one file of a Debian source package."""
    arguments: dict[str, Json] = {
        "name": entry.name,
        "version": entry.version,
        "suite": entry.suite,
        "locator": file.locator,
        "size": file.size,
        "sha256": file.sha256.hex,
    }
    return step(file.file, "fetch-source", arguments, {})


def fetch_wheel(entry: WheelEntry) -> Derivation:
    """Fetch one wheel."""
    arguments: dict[str, Json] = {
        "name": entry.name,
        "version": entry.version,
        "file": entry.file,
        "size": entry.size,
        "sha256": entry.sha256.hex,
    }
    return step(entry.file, "fetch-wheel", arguments, {})


def unpack(name: str, kind: str, archive: Derivation, *, strip: int = 0, expected: Mapping[str, Json]) -> Derivation:
    """Unpack one archive; ``expected`` is what it must say of itself."""
    arguments: dict[str, Json] = {"kind": kind, "strip": strip, "expected": dict(expected) or None}
    return step(name, "unpack", arguments, {"archive": FixedInput(archive)}, labels=(archive.name,))


def unpacked(name: str, kind: str, inputs: Mapping[str, Input], *, path: str | None = None) -> Derivation:
    """Unpack something that is not one archive; ``path`` is what a single file is called in its tree."""
    arguments: dict[str, Json] = {"kind": kind, "strip": 0, "expected": None}
    return step(name, "unpack", arguments | ({} if path is None else {"path": path}), inputs, labels=(name,))


def unpack_deb(entry: DebEntry) -> Derivation:
    """Fetch and unpack one binary package."""
    expected: dict[str, Json] = {
        "name": entry.name,
        "version": entry.version,
        "architecture": entry.architecture,
    }
    return unpack(f"{entry.file} unpacked", "deb", fetch_deb(entry), expected=expected)


def unpack_wheel(entry: WheelEntry) -> Derivation:
    """Fetch and unpack one wheel."""
    expected: dict[str, Json] = {"name": entry.name, "version": entry.version, "architecture": None}
    return unpack(f"{entry.file} unpacked", "wheel", fetch_wheel(entry), expected=expected)


def debian_root(name: str, host: Platform, declaration: Json, debs: Sequence[DebEntry]) -> Derivation:
    """Compose a root from packages."""
    inputs: dict[str, Input] = {f"{deb.name}:{deb.architecture}": BuiltInput(unpack_deb(deb)) for deb in debs}
    return step(name, "debian-root", {"root": declaration}, inputs, host=host)


def patched(name: str, source: Derivation, series: Json, labels: Sequence[str]) -> Derivation:
    """Apply a series; ``labels`` are its patches' file names."""
    return step(name, "patch", {"series": series}, {"source": reference(source)}, labels=tuple(labels))


def composed(name: str, parts: Sequence[tuple[str, str, Derivation]], wins: Mapping[str, Json]) -> Derivation:
    """Union of trees: (part name, where it is put, tree)."""
    arguments: dict[str, Json] = {"parts": [{"name": part, "at": at} for part, at, _ in parts], "wins": dict(wins)}
    return step(name, "compose", arguments, {part: reference(tree) for part, _, tree in parts})


def script(
    name: str,
    *,
    arguments: Mapping[str, Json],
    root: Derivation,
    inputs: Mapping[str, Derivation],
    build: Platform,
    host: Platform,
    timeout_s: int,
) -> Derivation:
    """Run a script in the sandbox."""
    references: dict[str, Input] = {f"in.{role}": reference(tree) for role, tree in inputs.items()}
    references["root"] = reference(root)
    return step(name, "script", arguments, references, build=build, host=host, timeout_s=timeout_s)


def bytecode(
    name: str,
    source: Derivation,
    root: Derivation,
    *,
    python: str,
    paths: Sequence[str],
    exclude: Sequence[str],
    build: Platform,
) -> Derivation:
    """Compile the sources below some paths."""
    arguments: dict[str, Json] = {
        "python": python,
        "paths": list(paths),
        "exclude": list(exclude),
        "sandbox": sandbox_settings(),
    }
    inputs: dict[str, Input] = {"source": reference(source), "root": reference(root)}
    return step(name, "bytecode", arguments, inputs, build=build)


def installed_wheel(entry: WheelEntry, python: str, root: Derivation, build: Platform) -> Derivation:
    """Install, byte-compile and record one wheel."""
    name = f"{entry.name} {entry.version}"
    return installed(name, f"{name} recorded", unpack_wheel(entry), python, root, build, labels=(entry.file,))


def installed(
    name: str,
    last: str,
    wheel: Derivation,
    python: str,
    root: Derivation,
    build: Platform,
    *,
    labels: tuple[str, ...],
) -> Derivation:
    """Install, byte-compile and record an unpacked wheel; ``last`` is what the last step is called."""
    arguments: dict[str, Json] = {"python": python}
    laid = step(f"{name} installed", "install-wheel", arguments, {"wheel": reference(wheel)}, labels=labels)
    paths = [f"usr/local/lib/python{python}/dist-packages"]
    compiled = bytecode(f"{name} byte code", laid, root, python=python, paths=paths, exclude=(), build=build)
    parts: dict[str, Input] = {"installed": BuiltInput(laid), "bytecode": BuiltInput(compiled)}
    return step(last, "record", arguments, parts, labels=labels)


def layer(name: str, trees: Sequence[Derivation], modes: Json, encoding: Json) -> Derivation:
    """Write one layer from the union of some trees."""
    inputs: dict[str, Input] = {f"tree.{index}": reference(tree) for index, tree in enumerate(trees)}
    labels = tuple(tree.name for tree in trees)
    return step(name, "layer", {"modes": modes, "encoding": encoding}, inputs, labels=labels)


def image(
    name: str, host: Platform, config: Json, modes: Json, layers: Sequence[Derivation], root: Derivation
) -> Derivation:
    """Write config and manifest over layers; ``root`` is the union of all layers' trees."""
    inputs: dict[str, Input] = {"root": BuiltInput(root)}
    for index, one in enumerate(layers):
        inputs[f"layer.{index}"] = BuiltInput(one, "descriptor")
        inputs[f"blob.{index}"] = BuiltInput(one)
    return step(name, "image", {"config": config, "modes": modes, "layers": len(layers)}, inputs, host=host)
