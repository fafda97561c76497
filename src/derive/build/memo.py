# SPDX-License-Identifier: Apache-2.0
"""An unchanged project is recognised by the digests of what was read, so that nothing is evaluated again.

Edge: the store. Imports nothing heavy.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

from derive.build.engine import engine_digest
from derive.canonical import Digest, digest_document, escape
from derive.errors import DeriveError
from derive.project import Project
from derive.store.history import note_answer
from derive.store.local import LocalStore

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
_DERIVATION_LABEL = "io.derive.derivation"


def memo_key(project: Project, image: str, platform: str | None) -> Digest:
    """Return what an image's digest is remembered under: all content, the engine, and what was asked."""
    return digest_document(
        {
            "derive": "image-memo/1",
            "content": project.digest().hex,
            "engine": engine_digest().hex,
            "image": escape(image.encode("utf-8", "surrogateescape")),
            "platform": platform,
        }
    )


def recall(store: LocalStore, key: Digest, root: Path) -> Digest | None:
    """Return the image digest that was remembered, if every blob of that image is still present.

    ``root`` is the project, whose trust says whether what came from a cache may lie under the image: where it has
    changed since, nothing is remembered. Raises what reading it does.
    """
    value = store.database.memo(_believed(store, key, root))
    if value is None:
        return None
    manifest = Digest(value)
    return manifest if image_is_whole(store, manifest) else None


def remember(store: LocalStore, key: Digest, root: Path, manifest: Digest) -> None:
    """Remember an image's digest for :func:`recall`."""
    store.database.set_memo(_believed(store, key, root), manifest.hex)


def _believed(store: LocalStore, key: Digest, root: Path) -> Digest:
    """Return a key that also says whose word is believed, where anything in the store came by somebody's."""
    if not store.database.has_substituted():
        return key
    from derive.cache.standing import belief_in

    return digest_document({"derive": "believed-memo/1", "key": key.hex, "belief": belief_in(root).digest().hex})


def keep_recalled(store: LocalStore, name: str, manifest: Digest) -> None:
    """Name and note an image that was recalled, where another one has its name now: it is the one that is wanted."""
    if store.read_only:
        return
    config = json.loads(b"".join(store.read_blob(manifest)))["config"]["digest"]
    document = json.loads(b"".join(store.read_blob(Digest.parse(config))))
    host = f"{document['os']}/{document['architecture']}"
    name_image(store, name, host, manifest)
    derivation = Digest.parse(document["config"]["Labels"][_DERIVATION_LABEL])
    with suppress(OSError, DeriveError):  # the answer is there, whatever can be noted of it
        note_answer(store.database, derivation, name, host, int(time.time()))


def name_image(store: LocalStore, name: str, host: str, manifest: Digest) -> None:
    """Keep an image from being collected, and name it for every tool that reads the store as an OCI layout."""
    root = ("image", f"{name} {host}", manifest)
    if root not in store.database.roots():
        store.database.set_root(*root)
        store.tag(f"{name}-{host.removeprefix('linux/')}", manifest, store.blob_size(manifest), MANIFEST_TYPE)


def image_is_whole(store: LocalStore, manifest: Digest) -> bool:
    """Say whether an image's manifest, config and layers are all present."""
    if not store.has_blob(manifest):
        return False
    document = json.loads(b"".join(store.read_blob(manifest)))
    parts = [document["config"], *document["layers"]]
    return all(store.has_blob(Digest.parse(part["digest"])) for part in parts)
