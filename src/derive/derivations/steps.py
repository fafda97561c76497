# SPDX-License-Identifier: Apache-2.0
"""One function per kind of step: from locked entries and other derivations to a derivation.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derive.build.builders import VERSIONS
from derive.canonical import Digest, Json
from derive.derivations.model import BuiltInput, Derivation, FixedInput, Identity, Input, Platform
from derive.images.encoding import Encoding
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


def unpack(
    name: str,
    kind: str,
    archive: Derivation,
    *,
    strip: int = 0,
    expected: Mapping[str, Json],
    identity: Identity = "nar",
) -> Derivation:
    """Unpack one archive; ``expected`` is what it must say of itself."""
    arguments: dict[str, Json] = {"kind": kind, "strip": strip, "expected": dict(expected) or None}
    arguments |= named_by(identity)
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


def unpack_wheel(entry: WheelEntry, identity: Identity = "nar") -> Derivation:
    """Fetch and unpack one wheel."""
    expected: dict[str, Json] = {"name": entry.name, "version": entry.version, "architecture": None}
    return unpack(f"{entry.file} unpacked", "wheel", fetch_wheel(entry), expected=expected, identity=identity)


def debian_root(name: str, host: Platform, declaration: Json, debs: Sequence[DebEntry]) -> Derivation:
    """Compose a root from packages."""
    inputs: dict[str, Input] = {f"{deb.name}:{deb.architecture}": BuiltInput(unpack_deb(deb)) for deb in debs}
    return step(name, "debian-root", {"root": declaration}, inputs, host=host)


def patched(
    name: str, source: Derivation, series: Json, labels: Sequence[str], identity: Identity = "nar"
) -> Derivation:
    """Apply a series; ``labels`` are its patches' file names."""
    arguments = {"series": series} | named_by(identity)
    return step(name, "patch", arguments, {"source": reference(source)}, labels=tuple(labels))


def named_by(identity: Identity) -> dict[str, Json]:
    """Return the argument that says what an output's digest is taken of; the NAR's needs no word."""
    return {} if identity == "nar" else {"identity": identity}


def composed(
    name: str,
    parts: Sequence[tuple[str, str, Derivation]],
    wins: Mapping[str, Json],
    identity: Identity = "nar",
) -> Derivation:
    """Union of trees: (part name, where it is put, tree)."""
    arguments: dict[str, Json] = {"parts": [{"name": part, "at": at} for part, at, _ in parts], "wins": dict(wins)}
    arguments |= named_by(identity)
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


def patched_wheel(entry: WheelEntry) -> str:
    """Return what the step is called that applies a series to a wheel: the same for every version and platform."""
    return f"{entry.name} patched"


def installed_wheel(
    entry: WheelEntry,
    python: str,
    root: Derivation,
    build: Platform,
    patched: Derivation | None = None,
    drop: Sequence[str] = (),
    identity: Identity = "nar",
) -> Derivation:
    """Install, byte-compile and record one wheel; ``patched`` is its tree with a series, ``drop`` what stays away."""
    name, wheel = f"{entry.name} {entry.version}", unpack_wheel(entry, identity)
    return installed(
        name,
        f"{name} recorded",
        wheel,
        python,
        root,
        build,
        labels=(entry.file,),
        patched=patched,
        drop=drop,
        identity=identity,
    )


def installed(
    name: str,
    last: str,
    wheel: Derivation,
    python: str,
    root: Derivation,
    build: Platform,
    *,
    labels: tuple[str, ...],
    patched: Derivation | None = None,
    drop: Sequence[str] = (),
    identity: Identity = "nar",
) -> Derivation:
    """Install, byte-compile and record an unpacked wheel; ``last`` is what the last step is called."""
    written: dict[str, Json] = {"python": python} | named_by(identity)
    arguments = written | ({"drop": sorted(drop)} if drop else {})
    trees = {"wheel": reference(wheel)} | ({} if patched is None else {"patched": reference(patched)})
    laid = step(f"{name} installed", "install-wheel", arguments, trees, labels=labels)
    paths = [f"usr/local/lib/python{python}/dist-packages"]
    compiled = bytecode(f"{name} byte code", laid, root, python=python, paths=paths, exclude=(), build=build)
    parts: dict[str, Input] = {"installed": BuiltInput(laid), "bytecode": BuiltInput(compiled)}
    return step(last, "record", written, parts, labels=labels)


def split(name: str, how: Mapping[str, Json], inputs: Mapping[str, Input]) -> Derivation:
    """Cut a tree into several; ``how`` are the builder's arguments."""
    return step(name, "split", how, inputs, labels=(name,))


def layer(
    name: str,
    trees: Sequence[Derivation | BuiltInput],
    modes: Json,
    encoding: Json,
    *,
    wheels: Sequence[WheelEntry] = (),
    identity: Identity = "nar",
    elsewhere: BuiltInput | None = None,
    select: Json = None,
) -> Derivation:
    """Write one layer from the union of some trees; an encoding that carries takes the streams of ``wheels`` over.

    ``identity`` is what the digests of the unpacked wheels are taken of.
    ``select`` says which leaves of the trees are in it; those of ``elsewhere`` are not: they stand in another layer.
    """
    given = [tree if isinstance(tree, BuiltInput) else reference(tree) for tree in trees]
    inputs: dict[str, Input] = {f"tree.{index}": one for index, one in enumerate(given)}
    labels = tuple(one.derivation.name + (f" {one.output}" if one.output != "out" else "") for one in given)
    if elsewhere is not None:
        inputs["elsewhere"] = elsewhere
    if Encoding.from_document(encoding).carries:
        for index, entry in enumerate(wheels):
            inputs[f"archive.{index}"] = reference(fetch_wheel(entry))
            inputs[f"members.{index}"] = reference(unpack_wheel(entry, identity))
        labels += tuple(entry.file for entry in wheels)
    arguments: dict[str, Json] = {"modes": modes, "encoding": encoding}
    return step(name, "layer", arguments | ({} if select is None else {"select": select}), inputs, labels=labels)


def image(
    name: str,
    host: Platform,
    config: Json,
    modes: Json,
    layers: Sequence[Derivation],
    root: Derivation,
    *,
    optional: Sequence[int] = (),
    needed: Mapping[str, Json] | None = None,
    file: str | None = None,
    base: Mapping[str, Input] | None = None,
    base_digest: Digest | None = None,
) -> Derivation:
    """Write config and manifest over layers; ``root`` is the union of all layers' trees.

    ``optional`` are the places of layers that are left out when nothing is in them; ``needed`` are paths that must be
    in the image, by what needs them; ``file`` is where
    the image is declared, which errors name, where that is not the file of its name. ``base``, of an image upon
    another, has the other's manifest and ``own``, the union of the trees of ``layers``; ``base_digest`` is the manifest
    that it must be.
    """
    inputs: dict[str, Input] = {"root": BuiltInput(root), **(base or {})}
    for index, one in enumerate(layers):
        inputs[f"layer.{index}"] = BuiltInput(one, "descriptor")
        inputs[f"blob.{index}"] = BuiltInput(one)
    arguments: dict[str, Json] = {"config": config, "modes": modes, "layers": len(layers)}
    # Absent where there is nothing to say: images of before have the ids that they had.
    more: dict[str, Json] = {"optional": list(optional), "needed": dict(needed or {})}
    more["base-digest"] = "" if base_digest is None else str(base_digest)
    arguments |= {key: value for key, value in more.items() if value}
    return step(name, "image", arguments, inputs, host=host, labels=(file or f"images/{name}.toml",))


def facts(tree: Derivation) -> Derivation:
    """Probe the files of a tree."""
    return step(f"{tree.name} facts", "facts", {"kind": "scan"}, {"tree": reference(tree)}, labels=(tree.name,))


def image_facts(name: str, root: Derivation, trees: Sequence[Derivation]) -> Derivation:
    """Unite the facts of the trees that an image's ``root`` is the union of."""
    inputs: dict[str, Input] = {f"facts.{index:04}": BuiltInput(facts(tree)) for index, tree in enumerate(trees)}
    return step(f"{name} facts", "facts", {"kind": "union"}, {**inputs, "root": reference(root)})
