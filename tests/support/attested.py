# SPDX-License-Identifier: Apache-2.0
"""An image made up for tests of what is said of images: packages, a patched wheel, a program of our own.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derive.attest.facts import ImageFacts, Parameters
from derive.attest.provenance import resolved_id
from derive.build.plan import resolved_of
from derive.canonical import Digest, Json, sha256
from derive.derivations import steps
from derive.derivations.model import BuiltInput, Derivation, FlatOutput, Output, Platform, TreeOutput, closure
from derive.images.encoding import Encoding
from derive.lock.documents import DebEntry, SourceEntry, SourceFile, WheelEntry
from derive.why.graph import Graph, graph_of

HOST: Platform = "linux/arm64"
ENCODING: Json = Encoding(level=6).to_document()
SERIES: Json = [{"operations": [{"op": "delete", "path": name, "lines": ["-x"]}]} for name in ("one", "two")]
ENGINE = sha256(b"engine")


def deb(name: str, version: str = "1-1", licence: str = "GPL-2+") -> DebEntry:
    """Return a locked package."""
    file = f"{name}_{version}_arm64.deb"
    return DebEntry(
        name=name,
        version=version,
        architecture="arm64",
        file=file,
        locator=f"pool/main/{name[0]}/{name}/{file}",
        suite="trixie",
        size=len(file),
        sha256=sha256(file.encode()),
        licence=licence,
    )


def wheel(name: str, version: str = "2.0", licence: str = "MIT") -> WheelEntry:
    """Return a locked wheel."""
    file = f"{name}-{version}-py3-none-any.whl"
    return WheelEntry(
        name=name, version=version, file=file, size=len(file), sha256=sha256(file.encode()), licence=licence
    )


def source(name: str = "tool", version: str = "3-1") -> SourceEntry:
    """Return a locked source package of one file."""
    file = f"{name}_3.orig.tar.gz"
    part = SourceFile(file=file, locator=f"pool/main/t/{name}/{file}", size=len(file), sha256=sha256(file.encode()))
    return SourceEntry(name=name, version=version, suite="trixie", files=(part,), licence="Apache-2.0 AND MIT")


def toolchain() -> Derivation:
    """Return the root of the sandboxes, whose packages are in no image."""
    return steps.debian_root("toolchain", "linux/amd64", {}, [deb("compiler"), deb("bash")])


def patched(name: str, tree: Derivation, series: Json = SERIES) -> Derivation:
    """Return a patched tree."""
    return steps.patched(name, tree, series, [f"patches/{name}/0001-one.patch", f"patches/{name}/0002-two.patch"])


def program(name: str = "tool") -> Derivation:
    """Return a program that is built from a patched source."""
    entry = source(name)
    archive = steps.fetch_source(entry, entry.files[0])
    tree = patched(name, steps.unpack(f"{name}-source", "tar", archive, strip=1, expected={}))
    return steps.script(
        name,
        arguments={"script": "make"},
        root=toolchain(),
        inputs={"source": tree},
        build="linux/amd64",
        host=HOST,
        timeout_s=60,
    )


def wheels(entries: Sequence[WheelEntry], *, with_patches: Sequence[str] = ()) -> Derivation:
    """Return a union of installed wheels."""
    parts = []
    for entry in entries:
        tree = patched(entry.name, steps.unpack_wheel(entry)) if entry.name in with_patches else None
        parts.append((entry.name, "", steps.installed_wheel(entry, "3.13", toolchain(), "linux/amd64", tree)))
    return steps.composed("wheels", parts, {})


def image(layers: Mapping[str, Sequence[Derivation | BuiltInput]], name: str = "tiny") -> Derivation:
    """Return an image of these layers."""
    made = [steps.layer(f"{name} layer {layer}", trees, {}, ENCODING) for layer, trees in layers.items()]
    return steps.image(name, HOST, {}, {}, made, toolchain())


def tiny() -> Derivation:
    """Return an image with one of everything."""
    root = steps.debian_root("root", HOST, {}, [deb("bash"), deb("licences", licence="see-copyright-file")])
    code = steps.bytecode(
        "root-bytecode", root, toolchain(), python="3.13", paths=["usr/lib"], exclude=(), build="linux/amd64"
    )
    entries = [wheel("vllm"), wheel("numpy", licence="BSD-3-Clause AND (MIT OR Zlib)"), wheel("odd", licence="unknown")]
    return image(
        {"system": [root], "bytecode": [code], "wheels": [wheels(entries, with_patches=["vllm"])], "tool": [program()]}
    )


def facts(target: Derivation, *, empty: Sequence[str] = ()) -> ImageFacts:
    """Return what is known of an image after it was derived; layers of these names came out empty."""
    given = _outputs(target, frozenset(f"{target.name} layer {name}" for name in empty))
    graph = graph_of(closure(target))
    outputs = {key: {name: str(one) for name, one in found.items()} for key, found in given.items()}
    whole = Graph(nodes=graph.nodes, fetches=graph.fetches, outputs=outputs)
    layers = [one.derivation for role, one in target.inputs.items() if role.startswith("blob.")]
    return ImageFacts(
        image=given[target.id]["out"].digest,
        layers=tuple(given[one.id]["out"].digest for one in layers if not one.name.endswith(tuple(empty) or "\0")),
        derivation=target.id,
        graph=whole,
        resolved={node.id: key for node in whole.closure(target.id) if (key := resolved_id(whole, node)) is not None},
        engine=ENGINE,
        licences=_licences(),
        parameters=Parameters(content=sha256(b"content"), locks={"lock/set.lock.json": sha256(b"lock")}),
    )


def _outputs(target: Derivation, empty: frozenset[str]) -> dict[Digest, dict[str, Output]]:
    """Return what each step gave: something that follows from its resolved id."""
    found: dict[Digest, dict[str, Output]] = {}
    order = closure(target)
    asked: dict[Digest, set[str]] = {}
    for user in order:
        for given in user.inputs.values():
            asked.setdefault(given.derivation.id, set()).add(given.output)
    for one in order:
        if one.fixed is not None:
            found[one.id] = {"out": one.fixed}
            continue
        inputs = {role: found[given.derivation.id][given.output] for role, given in one.inputs.items()}
        seed = resolved_of(one, inputs).id.hex
        is_flat = one.builder in ("layer", "image")
        found[one.id] = {
            name: (FlatOutput if is_flat else TreeOutput)(sha256(f"{seed} {name}".encode()))
            for name in sorted({"out", *asked.get(one.id, ())})
        }
        if one.name in empty:
            found[one.id]["out"] = FlatOutput(sha256(b"empty"))
    return found


def _licences() -> dict[str, str]:
    known: list[DebEntry | WheelEntry] = [deb("bash"), deb("licences", licence="see-copyright-file"), wheel("vllm")]
    known += [wheel("odd", licence="unknown"), wheel("numpy", licence="BSD-3-Clause AND (MIT OR Zlib)")]
    found = {entry.sha256.hex: entry.licence for entry in known}
    return found | {file.sha256.hex: source().licence for file in source().files}
