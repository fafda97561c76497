# SPDX-License-Identifier: Apache-2.0
"""Has a builder assemble an image of the store once more, and takes what it made once it is proved to be the same.

Edge: scratch folders, processes, the store.

The builder's image has other bytes, and so a digest of its own: its layers are compressed by that builder. What a
container of it sees is compared with the native image path by path, and its settings are.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from derive.buildkit.builders import Builder, find_builder
from derive.buildkit.client import INSTALL, Build, BuildRequest
from derive.buildkit.contexts import ContextLayer, Contexts
from derive.buildkit.foreign import foreign_problems
from derive.buildkit.image import (
    BUILD_ARGUMENTS,
    OUTPUT,
    context_names,
    dockerfile,
    dockerfile_problems,
    marked,
    settings_differences,
    unasked,
)
from derive.buildkit.scratch import scratch_folder
from derive.buildkit.watch import Patience, Stopped, Watch
from derive.canonical import Digest, escape
from derive.errors import (
    BuildFailed,
    CheckFailed,
    Corrupt,
    DeriveError,
    HostRefuses,
    InputErrors,
    Problem,
    Unavailable,
    expected_got,
)
from derive.images.base import config_of
from derive.images.oci import MANIFEST_TYPE, Descriptor, ImageConfig
from derive.images.shown import file_differences, shown_files
from derive.oci.documents import LONGEST_MANIFEST, Manifest, parse_manifest
from derive.oci.tree import image_documents
from derive.store.local import LocalStore

KIND = "image"
"""The kind of root that keeps a builder's image, beside the native one's."""

_PATIENCE = Patience()
_SAID = 12
_HINT = "docker buildx ls says which builders answer; what a builder has already is not sent again"
_STEP = re.compile(r"#\d+ (?:\[stage-\d+ \d+/\d+\] )?((?:COPY|exporting|rewriting) .*?)(?: \d+\.\d+s)?(?: done)?")
"""What is worth a line of what the client tells: not how far each transfer is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """A native image as a Dockerfile: the text, and the image of one layer that each context is, by name."""

    name: str
    platform: str
    native: Digest
    text: str
    contexts: Mapping[str, Digest]
    settings: ImageConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltImage:
    """What a builder made: its own digest, who made it, and at how many paths it shows what the native image does."""

    manifest: Digest
    builder: Mapping[str, str]
    paths: int


def assembly(
    store: LocalStore, contexts: Contexts, native: Digest, name: str, layer_names: Mapping[Digest, str]
) -> Assembly:
    """Turn an image of the store into a Dockerfile; ``layer_names`` are what layers are called, by their blobs.

    Raises:
        InputErrors: everything in its settings, and in the layers of a base, that no Dockerfile can say.
        Missing, Corrupt: when the image is not whole.
    """
    found, config = image_documents(store, native, name=name)
    settings = config_of(b"".join(store.read_blob(found.config.digest)))
    where = f"images/{name}.toml"
    problems = [
        *dockerfile_problems(settings, f"{where}: config"),
        *foreign_problems(store, (layer.digest for layer in found.layers), layer_names, f"{where}: base"),
    ]
    if problems:
        raise InputErrors(problems)
    names = context_names([layer_names.get(layer.digest, "") for layer in found.layers])
    images = [
        contexts.image([_context_layer(layer, diff_id)], config.platform, {})
        for layer, diff_id in zip(found.layers, config.diff_ids, strict=True)
    ]
    settings = marked(settings, native)
    return Assembly(
        name=name,
        platform=config.platform,
        native=native,
        text=dockerfile(name, config.platform, native, names, settings),
        contexts=dict(zip(names, images, strict=True)),
        settings=settings,
    )


def build_image(
    store: LocalStore,
    native: Digest,
    name: str,
    layer_names: Mapping[Digest, str],
    *,
    builder: str = "",
    patience: Patience = _PATIENCE,
    note: Callable[[str], None] = lambda _: None,
) -> BuiltImage:
    """Have a builder assemble an image of the store; ``note`` is told what its client says.

    What it made is in the store, and kept from being collected under the native image's name.

    Raises:
        InputErrors: when buildx knows no such builder, or a Dockerfile cannot say what the image's settings are.
        HostRefuses: when this machine has no client, or the builder takes no contexts by digest.
        Unavailable: when no node of the builder answers, or none does any more.
        BuildFailed: when the build failed, in the client's words.
        CheckFailed: when what it made does not show the same files and settings.
    """
    chosen = _usable(builder)
    with scratch_folder(Path(store.staging.new_path()).parent, "buildkit-image-") as scratch:
        contexts = Contexts(store, scratch / "contexts")
        asked = assembly(store, contexts, native, name, layer_names)
        _require_folder(store, asked)
        result = _run(asked, chosen, contexts, scratch, patience, note)
        manifest = _taken(store, result, f"what builder {chosen.name} made of {name}")
    paths = _proved(store, asked, manifest)
    _keep(store, asked, manifest)
    return BuiltImage(manifest=manifest, builder=chosen.facts(asked.platform), paths=paths)


def _usable(name: str) -> Builder:
    """Find a builder; for which platform decides nothing, because nothing is run."""
    try:
        found = find_builder(name)
    except InputErrors as error:
        raise InputErrors([replace(problem, where="--backend") for problem in error.problems()]) from error
    if not found.is_running:
        hint = f"docker buildx inspect --bootstrap {found.name} starts it, or says why not"
        raise Unavailable(f"no node of the builder {found.name} answers", hint=hint)
    if not any(node.is_running and node.takes_layouts for node in found.nodes):
        raise HostRefuses(
            f"the builder {found.name} takes no contexts by digest: its Docker engine keeps images in its older store",
            hint='turn on the containerd image store ("features" in daemon.json), or make a builder of its own',
        )
    return found


def _context_layer(layer: Descriptor, diff_id: Digest) -> ContextLayer:
    return ContextLayer(blob=layer.digest, size=layer.size, diff_id=diff_id)


def _require_folder(store: LocalStore, asked: Assembly) -> None:
    """Refuse a working folder that no layer has: a Dockerfile makes it, and so another tree."""
    folder = asked.settings.working_folder.strip("/").encode()
    if folder and folder not in shown_files(store, asked.native, name=f"image {asked.name}"):
        where = f"images/{asked.name}.toml: config.working-folder"
        message = f"no layer has the folder /{escape(folder)}, which a Dockerfile would make"
        raise InputErrors([Problem(where=where, message=message, hint="let a layer have it")])


def _run(
    asked: Assembly,
    builder: Builder,
    contexts: Contexts,
    scratch: Path,
    patience: Patience,
    note: Callable[[str], None],
) -> Path:
    """Have it built, and return the layout that the client wrote."""
    request = BuildRequest(
        address=builder.address,
        dockerfile=asked.text,
        contexts={name: contexts.place(one) for name, one in asked.contexts.items()},
        platform=asked.platform,
        build_arguments=BUILD_ARGUMENTS,
        folder=scratch / "build",
        output=OUTPUT,
        result=scratch / "result",
        progress="plain",
        uses_cache=True,
    )
    build = Build(request=request)
    watch = Watch(build=build, builder=builder, patience=patience)
    said: list[str] = []
    told_of: set[str] = set()
    with contextlib.closing(watch.lines()) as told:
        for line in told:
            if text := line.strip():
                said = [*said[1 - _SAID :], text]
            if (found := _STEP.fullmatch(text)) and found[1] not in told_of:
                told_of.add(found[1])
                note(found[1])
    if build.status != 0:
        raise _failed(asked, builder, watch.stopped, said)
    return request.result


def _failed(asked: Assembly, builder: Builder, stopped: Stopped | None, said: Sequence[str]) -> DeriveError:
    if stopped is not None:
        return Unavailable(f"{stopped}, and did not assemble {asked.name}", detail=said[-3:], hint=_HINT)
    if any("unknown flag" in line or "oci-layout" in line for line in said):
        return HostRefuses(
            f"builder {builder.name}, or this machine's buildx, is too old for contexts by digest",
            detail=said[-1:],
            hint=INSTALL,
        )
    # Nothing of the image runs there, so that most often it is the builder that went away.
    return BuildFailed(
        f"builder {builder.name} did not assemble {asked.name}",
        detail=[line for line in said if "ERROR" in line] or said[-3:],
        hint=_HINT,
    )


def _taken(store: LocalStore, layout: Path, name: str) -> Digest:
    """Take the image of a layout into the store, all of it held against its digests."""
    try:
        (listed,) = json.loads((layout / "index.json").read_bytes())["manifests"]
        manifest = Digest.parse(listed["digest"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Corrupt(f"no image in a layout: {error}", where=name) from error
    _take(store, layout, manifest, name)
    if store.blob_size(manifest) > LONGEST_MANIFEST:
        raise Corrupt(f"a manifest of more than {LONGEST_MANIFEST} bytes", where=name)
    _, document = parse_manifest(b"".join(store.read_blob(manifest)), where=name)
    if not isinstance(document, Manifest):
        raise Corrupt("an index of several images, where one image is wanted", where=name)
    for part in (document.config, *document.layers):
        _take(store, layout, part.digest, name)
    image_documents(store, manifest, name=name)
    return manifest


def _take(store: LocalStore, layout: Path, digest: Digest, name: str) -> None:
    place = layout / "blobs" / "sha256" / digest.hex
    if not place.is_file():
        raise Corrupt("a blob that is named, and was not sent", where=name, detail=[f"blob      {digest}"])
    with place.open("rb") as file, store.blob_writer() as writer:
        while piece := file.read(1 << 20):
            writer.write(piece)
        got = writer.commit()
    if got != digest:
        raise Corrupt("a blob that is not what its digest says", where=name, detail=expected_got(digest, got))


def _proved(store: LocalStore, asked: Assembly, manifest: Digest) -> int:
    native = shown_files(store, asked.native, name=f"image {asked.name}")
    built = shown_files(store, manifest, name=f"BuildKit's {asked.name}")
    found, config = image_documents(store, manifest, name=asked.name)
    lines = file_differences(native, built)
    blob = b"".join(store.read_blob(found.config.digest))
    lines += settings_differences(asked.settings, config_of(blob))
    lines += unasked(blob, (layer.media_type for layer in found.layers))
    if config.platform != asked.platform:
        lines.append(f"platform: {asked.platform}, and in the other {config.platform}")
    if lines:
        raise CheckFailed(
            f"what BuildKit made of {asked.name} is not the image that derive made",
            detail=lines,
            hint="nothing of it is kept; the image itself is there: derive image --output FILE",
        )
    return len(native)


def _keep(store: LocalStore, asked: Assembly, manifest: Digest) -> None:
    root = (KIND, f"{asked.name} {asked.platform} buildkit", manifest)
    if root not in store.database.roots():
        store.database.set_root(*root)
        tag = f"{asked.name}-{asked.platform.removeprefix('linux/')}-buildkit"
        store.tag(tag, manifest, store.blob_size(manifest), MANIFEST_TYPE)
