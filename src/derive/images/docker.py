# SPDX-License-Identifier: Apache-2.0
"""What Docker wants beside an OCI layout, so that an exported archive loads on either of its image stores, with a name.

Core: no IO.

The containerd store reads the layout's index and takes the name from an annotation; the older store knows no index and
reads ``manifest.json``. Neither changes the image.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from derive.canonical import encode

if TYPE_CHECKING:
    from derive.images.oci import Descriptor

MANIFEST_FILE = "manifest.json"
NAME_ANNOTATION = "io.containerd.image.name"

_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")


def local_name(name: str) -> str | None:
    """Return the reference under which Docker is to keep an image, or None for a name that Docker cannot have.

    ``localhost/`` says that the image comes from no registry, so that an engine which lacks it asks none for it.
    """
    return f"localhost/{name}:latest" if _REPOSITORY.fullmatch(name) else None


def manifest_json(config: Descriptor, layers: Sequence[Descriptor], name: str) -> bytes:
    """Encode the file by which Docker's older image store finds config and layers among a layout's blobs."""
    reference = local_name(name)
    entry = {
        "Config": _path(config),
        "RepoTags": None if reference is None else [reference],
        "Layers": [_path(layer) for layer in layers],
    }
    return encode([entry])


def _path(blob: Descriptor) -> str:
    return f"blobs/sha256/{blob.digest.hex}"
