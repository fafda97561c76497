# SPDX-License-Identifier: Apache-2.0
"""Builder names to the functions that do their work.

Edge: imports every builder, and with them all that they stand on.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.build.builders import (
    bytecode,
    compose,
    debian_root,
    facts,
    fetch,
    image,
    install_wheel,
    kernel,
    layer,
    patch,
    record,
    script,
    split,
    unpack,
)
from derive.build.context import Build

BUILDERS: Mapping[str, Build] = {
    "fetch-deb": fetch.build,
    "fetch-source": fetch.build,
    "fetch-wheel": fetch.build,
    "fetch-git": fetch.build_upstream,
    "fetch-url": fetch.build_upstream,
    "fetch-oci": fetch.build_upstream,
    "fetch-huggingface": fetch.build_upstream,
    "fetch-work-tree": fetch.build_work_tree,
    "fetch-engine": fetch.build_upstream,
    "unpack": unpack.build,
    "debian-root": debian_root.build,
    "install-wheel": install_wheel.build,
    "patch": patch.build,
    "script": script.build,
    "compose": compose.build,
    "bytecode": bytecode.build,
    "record": record.build,
    "kernel": kernel.build,
    "facts": facts.build,
    "split": split.build,
    "layer": layer.build,
    "image": image.build,
}
"""Every name in ``VERSIONS``, and no other."""
