# SPDX-License-Identifier: Apache-2.0
"""An image upon another one: the base's layers lie below its own, and what it does not say itself, the base says.

Core: no IO of its own; it reads through the store that it is given.

The base is known by the digest of its manifest alone. Its layers are taken as they are, blob by blob, so that whoever
has the base pulls only what lies upon it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from derive.canonical import Digest, Json, decode, escape
from derive.content import key_path
from derive.errors import Corrupt, Problem, expected_got
from derive.images.documents import DocumentError, mapping
from derive.images.layer import LayerDescriptor
from derive.images.modes import ModeTable
from derive.images.oci import (
    BACKEND_LABEL,
    CAPABILITIES_LABEL,
    DERIVATION_LABEL,
    NATIVE_LABEL,
    OVERLAY_LABEL,
    ImageConfig,
)
from derive.images.shown import Shown, shown_files
from derive.oci.tree import image_documents
from derive.store.protocol import Store
from derive.trees.listing import DIRECTORY, Entry, File, Listing

_OWN_LABELS = frozenset((BACKEND_LABEL, CAPABILITIES_LABEL, DERIVATION_LABEL, NATIVE_LABEL, OVERLAY_LABEL))
"""What an image says of itself alone. A capability is declared again, and held against what is in the image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """An image of the store that others are made upon. Of its layers' tars nobody asks the size: it is 0."""

    platform: str
    layers: tuple[LayerDescriptor, ...]
    config: ImageConfig


def read_base(store: Store, manifest: Digest, *, name: str) -> Base:
    """Read an image of the store; ``name`` is what errors call it; raises Missing or Corrupt when it is not whole."""
    found, config = image_documents(store, manifest, name=name)
    layers = tuple(
        LayerDescriptor(
            blob=layer.digest, size=layer.size, diff_id=diff_id, uncompressed_size=0, media_type=layer.media_type
        )
        for layer, diff_id in zip(found.layers, config.diff_ids, strict=True)
    )
    said = config_of(b"".join(store.read_blob(found.config.digest)))
    return Base(platform=config.platform, layers=layers, config=said)


def inherited(base: ImageConfig, own: ImageConfig) -> ImageConfig:
    """Return how a container is started of an image upon another, as Dockerfiles have it.

    Variables and labels of both, the own before the base's; of everything else the own where it says any. An own
    entry point comes without the base's command, which was meant for another program.
    """
    return replace(
        own,
        environment={**base.environment, **own.environment},
        entrypoint=own.entrypoint or base.entrypoint,
        command=own.command or (() if own.entrypoint else base.command),
        user=own.user or base.user,
        working_folder=own.working_folder or base.working_folder,
        labels={**{key: one for key, one in base.labels.items() if key not in _OWN_LABELS}, **own.labels},
        stop_signal=own.stop_signal or base.stop_signal,
        exposed_ports=own.exposed_ports + base.exposed_ports,
    )


def mode_problems(
    store: Store, manifest: Digest, own: Listing, modes: ModeTable, *, name: str, where: str
) -> Iterator[Problem]:
    """Yield the paths of a base whose bits or owner an image upon it would change; ``where`` is its file.

    A layer that holds a path shows it anew, folders on the way among them; and a rule for a path that no own layer
    holds would change nothing.
    """
    base = shown_files(store, manifest, name=name, contents=False)
    ruled = {rule.path for rule in modes.rules}
    for path, shown in sorted(base.items()):
        if shown.kind == "link" or (path not in own and path not in ruled):
            continue
        got = modes.attributes(path, own.get(path) or _entry(shown))
        if (got.mode, got.uid, got.gid) != (shown.mode, shown.uid, shown.gid):
            name_of = f"/{escape(path)}"
            yield Problem(
                where=f"{where}: {key_path(('modes', name_of))}",
                message="the base has this path, whose bits and owner stay as they are",
                detail=expected_got(_text(shown.mode, shown.uid, shown.gid), _text(got.mode, got.uid, got.gid)),
                hint=f'say: "{name_of}" = {{ mode = "{shown.mode:04o}", uid = {shown.uid}, gid = {shown.gid} }}',
            )


def config_of(blob: bytes) -> ImageConfig:
    """Read an image's config blob: any tool's, as far as it says how programs are started.

    A working folder that is not said is ``/``, and a port's protocol TCP.

    Raises:
        Corrupt: when it is none.
    """
    try:
        found = mapping(mapping(decode(blob), "config").get("config") or {}, "config.config")
        pairs = (one.partition("=") for one in _texts(found, "Env"))
        ports = mapping(found.get("ExposedPorts") or {}, "ExposedPorts")
        labels = mapping(found.get("Labels") or {}, "Labels")
        return ImageConfig(
            environment={name: value for name, _, value in pairs},
            entrypoint=_texts(found, "Entrypoint"),
            command=_texts(found, "Cmd"),
            user=_one(found, "User"),
            working_folder=_one(found, "WorkingDir") or "/",
            labels={key: str(value) for key, value in labels.items()},
            stop_signal=_one(found, "StopSignal"),
            exposed_ports=tuple(port if "/" in port else f"{port}/tcp" for port in ports),
        )
    except ValueError as error:
        raise Corrupt(f"the image's config cannot be read: {error}") from error


def _entry(shown: Shown) -> Entry:
    if shown.kind == "folder":
        return DIRECTORY
    return File(executable=bool(shown.mode & 0o100), size=shown.size, sha256=Digest("0" * 64))


def _texts(table: Mapping[str, Json], key: str) -> tuple[str, ...]:
    found = table.get(key) or ()
    if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
        raise DocumentError(f"{key}: not a list of texts")
    return tuple(str(one) for one in found)


def _one(table: Mapping[str, Json], key: str) -> str:
    found = table.get(key) or ""
    if not isinstance(found, str):
        raise DocumentError(f"{key}: not text")
    return found


def _text(mode: int, uid: int, gid: int) -> str:
    return f"{mode:04o} {uid}:{gid}"
