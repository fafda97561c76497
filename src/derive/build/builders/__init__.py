# SPDX-License-Identifier: Apache-2.0
"""The closed, versioned set of builders: one module each, with its page in docs/builders/.

Core: no IO.

A change in a builder that changes output bytes needs a new version here.
"""

from __future__ import annotations

from collections.abc import Mapping

VERSIONS: Mapping[str, int] = {
    "fetch-deb": 1,
    "fetch-source": 1,
    "fetch-wheel": 1,
    "fetch-git": 1,
    "fetch-url": 1,
    "fetch-oci": 1,
    "fetch-huggingface": 1,
    "fetch-work-tree": 1,
    "fetch-engine": 1,
    "unpack": 1,
    "debian-root": 1,
    "install-wheel": 1,
    "patch": 1,
    "script": 1,
    "compose": 1,
    "bytecode": 1,
    "record": 1,
    "kernel": 1,
    "facts": 2,
    "split": 1,
    "layer": 1,
    "image": 1,
}
"""Builder name to its version: both enter every derivation id."""
