# SPDX-License-Identifier: Apache-2.0
"""The smallest image that runs: BusyBox alone.

Edge: a container engine, the file system.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from support.docker_engine import DockerEngine
from support.require import skip_or_fail

BUSYBOX = Path("/bin/busybox")


def busybox_image(engine: DockerEngine, name: str) -> None:
    """Give an engine an image that has ``/busybox``."""
    if not BUSYBOX.exists():
        skip_or_fail(f"{BUSYBOX} is missing: install the package busybox-static")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        entry = tarfile.TarInfo("busybox")
        entry.size, entry.mode = BUSYBOX.stat().st_size, 0o755
        layer.addfile(entry, io.BytesIO(BUSYBOX.read_bytes()))
    engine.client.api.import_image_from_data(buffer.getvalue(), repository=name)
