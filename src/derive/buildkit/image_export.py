# SPDX-License-Identifier: Apache-2.0
"""An image leaves the store as a folder that docker buildx builds: Dockerfile, layers, and how to.

Edge: writes one folder, which is there whole or not at all.

All of it is a function of the image and its name.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from derive.buildkit.contexts import MANIFEST, Contexts
from derive.buildkit.image import LAYERS, readme, starter
from derive.buildkit.image_build import Assembly, assembly
from derive.canonical import Digest, Json, encode
from derive.errors import Corrupt, HostRefuses, InputErrors, expected_got
from derive.images.oci import INDEX_TYPE, LAYOUT, NAME_ANNOTATION
from derive.oci.tree import image_documents
from derive.store.local import LocalStore
from derive.trees.materialise import remove_folder


def check_folder(folder: Path) -> None:
    """Find out whether a folder can be written; nothing is changed.

    Raises:
        InputErrors: when something is there that is no empty folder, or the folder above is not there.
    """
    hint = "name a folder that is empty or does not exist yet"
    if not folder.absolute().parent.is_dir():
        raise InputErrors.one(f"the folder {folder.absolute().parent} does not exist", where="--to")
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir() or any(folder.iterdir())):
        raise InputErrors.one(f"{folder} is there already", where="--to", hint=hint)


def image_text(store: LocalStore, native: Digest, name: str, layer_names: Mapping[Digest, str]) -> str:
    """Return an image's Dockerfile; raises as :func:`derive.buildkit.image_build.assembly`."""
    with _assembled(store, native, name, layer_names) as made:
        return made.text


def export_dockerfile(
    store: LocalStore, native: Digest, name: str, layer_names: Mapping[Digest, str], folder: Path
) -> str:
    """Write an image with its layers into a folder, and return its Dockerfile; blobs are linked where that is possible.

    Raises:
        InputErrors: as :func:`check_folder`, and for settings that no Dockerfile can say.
        HostRefuses: when the folder cannot be written.
        Missing, Corrupt: when the image is not whole.
    """
    check_folder(folder)
    staged = folder.absolute().parent / f".{folder.name}.{secrets.token_hex(8)}.partial"
    try:
        with _assembled(store, native, name, layer_names) as made:
            _write(store, made, staged)
            staged.rename(folder.absolute())
            return made.text
    except OSError as error:
        raise HostRefuses(f"cannot write {folder}: {(error.strerror or '').lower()}") from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


@contextlib.contextmanager
def _assembled(store: LocalStore, native: Digest, name: str, layer_names: Mapping[Digest, str]) -> Iterator[Assembly]:
    scratch = Path(tempfile.mkdtemp(prefix="export-", dir=Path(store.staging.new_path()).parent))
    try:
        yield assembly(store, Contexts(store, scratch / "contexts"), native, name, layer_names)
    finally:
        remove_folder(scratch)


def _write(store: LocalStore, made: Assembly, folder: Path) -> None:
    blobs = folder / LAYERS / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for digest in dict.fromkeys(_blobs(store, made)):
        _blob(store, digest, blobs / digest.hex)
    listed: list[Json] = [
        {
            "annotations": {NAME_ANNOTATION: context},
            "digest": str(image),
            "mediaType": MANIFEST,
            "size": store.blob_size(image),
        }
        for context, image in made.contexts.items()
    ]
    index = encode({"manifests": listed, "mediaType": INDEX_TYPE, "schemaVersion": 2})
    (folder / LAYERS / "oci-layout").write_bytes(LAYOUT)
    (folder / LAYERS / "index.json").write_bytes(index)
    (folder / "Dockerfile").write_text(made.text)
    start = folder / "build.sh"
    start.write_text(starter(made.name, made.platform, made.contexts))
    start.chmod(0o755)
    (folder / "README.md").write_text(readme(made.name, made.platform, made.native))


def _blobs(store: LocalStore, made: Assembly) -> Iterator[Digest]:
    for context, image in made.contexts.items():
        found, _ = image_documents(store, image, name=context)
        yield from (image, found.config.digest, *(layer.digest for layer in found.layers))


def _blob(store: LocalStore, digest: Digest, target: Path) -> None:
    """Link a blob of the store, or copy it: to another file system, or where this user may not link."""
    with contextlib.suppress(OSError):
        os.link(store.blob_path(digest), target)
        return
    with target.open("xb") as file:
        file.writelines(store.read_blob(digest))
    if store.blob_size(digest) != target.stat().st_size:
        raise Corrupt("a blob of another size", detail=expected_got(store.blob_size(digest), target.stat().st_size))
