# SPDX-License-Identifier: Apache-2.0
"""The memory guard's program, taken out of the image that a node is to run, each digest checked on the way.

Core: no IO of its own; it reads through the store that it is given.

Nothing is believed of the store: the manifest is held against the image's digest, the layer's blob against the
manifest, its tar against the config, and the program against what the release says was built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.canonical import Digest, escape, sha256
from derive.errors import Corrupt, Missing, expected_got
from derive.trees.listing import Directory, File, Listing, parents

if TYPE_CHECKING:
    from derive.archives.tar import TarMember
    from derive.derivations.model import TreeOutput
    from derive.images.oci import Descriptor
    from derive.releases.facts import ImageFacts
    from derive.store.protocol import Store

GUARD_PATH = "/usr/libexec/derive/memguard"
"""Where an image that declares the capability ``memory-guard`` has it."""
GUARD_DERIVATION = "memguard"
"""What the derivation that builds it is called, in ``derivations/`` and in a release's facts."""

_PATH = GUARD_PATH.removeprefix("/").encode()
_ABOVE = frozenset(parents(_PATH))
_LARGEST = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFile:
    """The program's bytes, their SHA-256, and the blob of the layer that they came from."""

    data: bytes
    digest: Digest
    layer: Digest


def take_guard(store: Store, image: Digest, facts: ImageFacts | None = None) -> GuardFile:
    """Return the guard that is in an image of the store: in its highest layer that has one.

    ``image`` is the manifest's digest; ``facts`` is what the release says of that image, where there is any: the
    program must then be the one of the realisation that it names.

    Raises:
        Corrupt: when a digest or size on the way is not the stated one, or the image has no guard as one file.
        Missing: when a blob is not in the store.
    """
    from derive.oci.tree import image_documents

    name = f"image {image.short}"
    manifest, config = image_documents(store, image, name=name)
    _check_document(store, image, f"{name}: manifest")
    _check_document(store, manifest.config.digest, f"{name}: config")
    for number, layer in reversed(list(enumerate(manifest.layers))):
        where = f"{name}: layer {number} ({layer.digest.short})"
        data = _read_layer(store, layer, config.diff_ids[number], where)
        if data is not None:
            if facts is not None:
                _check_built(data, facts, f"{where}: {GUARD_PATH}")
            return GuardFile(data=data, digest=sha256(data), layer=layer.digest)
    raise Corrupt(f"an image without a memory guard: nothing is at {GUARD_PATH}", where=name)


def _check_document(store: Store, digest: Digest, where: str) -> None:
    got = sha256(b"".join(store.read_blob(digest)))
    if got != digest:
        raise Corrupt("a document that is not what its digest says", where=where, detail=expected_got(digest, got))


def _read_layer(store: Store, layer: Descriptor, diff_id: Digest, where: str) -> bytes | None:
    """Return the program where this layer has it, all of the layer read and checked; None where it says nothing."""
    from derive.archives import DEFAULT_LIMITS
    from derive.archives.notes import Note
    from derive.archives.stream import Bytes, decompressed
    from derive.archives.tar import read_tar

    packed, plain = hashlib.sha256(), hashlib.sha256()
    if not store.has_blob(layer.digest):
        raise Missing("a layer that the store does not hold", where=where, hint="have it: derive pull, or derive image")
    size = store.blob_size(layer.digest)
    if size != layer.size:
        raise Corrupt("a layer of another size than stated", where=where, detail=expected_got(layer.size, size))

    def stored() -> Iterator[bytes]:
        for piece in store.read_blob(layer.digest):
            packed.update(piece)
            yield piece

    def unpacked() -> Iterator[bytes]:
        for piece in decompressed(where, stored(), DEFAULT_LIMITS.allowed(size)):
            plain.update(piece)
            yield piece

    notes: list[Note] = []
    found: bytes | None = None
    hides: str | None = None
    for path, member in read_tar(where, Bytes(where, unpacked()), notes, limits=DEFAULT_LIMITS):
        if path == _PATH:
            found = _contents(member, where)
        hides = hides or _hides(path, member)
    for wanted, hasher, what in ((layer.digest, packed, "manifest"), (diff_id, plain, "config")):
        got = Digest(hasher.hexdigest())
        if got != wanted:
            raise Corrupt(f"a layer that is not the {what}'s", where=where, detail=expected_got(wanted, got))
    if found is None and hides is not None:
        raise Corrupt(f"an image without a memory guard: {hides} hides it", where=where)
    return found


def _contents(member: TarMember, where: str) -> bytes:
    from derive.trees.pack import NewFile

    if not isinstance(member, NewFile) or not member.executable:
        raise Corrupt("a memory guard that is no program of its own", where=f"{where}: {GUARD_PATH}")
    data = bytearray()
    for piece in member.chunks:
        data += piece
        if len(data) > _LARGEST:
            raise Corrupt(f"a memory guard of more than {_LARGEST} bytes", where=f"{where}: {GUARD_PATH}")
    return bytes(data)


def _hides(path: bytes, member: TarMember) -> str | None:
    """Return the name by which a layer takes away what lower ones have at the guard's place; None if it does not."""
    from derive.oci.layers import OPAQUE, WHITEOUT

    above, _, base = path.rpartition(b"/")
    if base == OPAQUE:
        return escape(path) if above in _ABOVE else None
    if base.startswith(WHITEOUT):
        gone = base.removeprefix(WHITEOUT)
        place = above + b"/" + gone if above else gone
        return escape(path) if place == _PATH or place in _ABOVE else None
    return escape(path) if path in _ABOVE and not isinstance(member, Directory) else None


def _check_built(data: bytes, facts: ImageFacts, where: str) -> None:
    """Hold the program against the release's realisation of it."""
    found = unlike_built(data, facts)
    if found is not None:
        detail = expected_got(*found)
        raise Corrupt("a memory guard that is not the one that the release names", where=where, detail=detail)


def names_guard(facts: ImageFacts) -> bool:
    """Say whether a release names what its image's guard was built as."""
    return bool(_built(facts))


def unlike_built(data: bytes, facts: ImageFacts) -> tuple[str, str] | None:
    """Return what a release's realisation of the guard is, the tree of that one file, and what this program is instead.

    None where it is that one, or the release names none.
    """
    from derive.trees.facts import facts_of
    from derive.trees.nar import nar_digest

    file = File(executable=True, size=len(data), sha256=sha256(data))
    tree = Listing.of({_PATH: file})
    own = {"nar": nar_digest(tree, lambda _path, _file: [data]), "facts": facts_of(tree)}
    built = _built(facts)
    if not built or any(output.digest == own[output.identity] for output in built):
        return None
    return str(built[0]), f"{built[0].identity}:{own[built[0].identity]}"


def _built(facts: ImageFacts) -> list[TreeOutput]:
    from derive.derivations.model import TreeOutput

    outputs = [one.outputs.values() for one in facts.derivations.values() if one.name == GUARD_DERIVATION]
    return [output for several in outputs for output in several if isinstance(output, TreeOutput)]
