# SPDX-License-Identifier: Apache-2.0
"""A project made up for measuring: one root of as many locked .debs as wanted.

Core: no IO.
"""

from __future__ import annotations

from pathlib import Path

from derive.canonical import Json, encode, sha256
from derive.lock.wishes import parse_wish, wish_digest
from derive.project import Project, Settings

NAME = "root"

_WISH = b"""
kind = "debian"
suite = "trixie"
components = ["main"]
[keyring]
locator = "pool/main/k/keyring/keyring_1_all.deb"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
size = 1
member = "usr/share/keyrings/keyring.pgp"
[closures.all]
architectures = ["amd64"]
packages = ["p0"]
"""

_ROOT = b"""
[root]
builder = "debian-root"
set = "many"
closure = "all"
"""

_IMAGE = b"""
platforms = ["linux/amd64"]
default-platform = "linux/amd64"
[[layers]]
name = "root"
from = ["root"]
"""


def project_of(archives: int) -> Project:
    """Return a project whose root is made of that many .debs: a fetch and an unpacking for each, and the root."""
    wish, problems = parse_wish(_WISH, "lock/many.toml")
    assert wish is not None, problems
    names = sorted(f"p{number}" for number in range(archives))
    lock: dict[str, Json] = {
        "derive": "lock/1",
        "kind": "debian",
        "set": "many",
        "wish": str(wish_digest(wish)),
        "closures": {"all": {"amd64": sorted(f"{name}_1_amd64.deb" for name in names)}},
        "entries": [_entry(name) for name in names],
    }
    files = {
        "lock/many.toml": _WISH,
        "lock/many.lock.json": encode(lock),
        "derivations/root.toml": _ROOT,
        "images/many.toml": _IMAGE,
    }
    return Project(
        root=Path("made-up"), settings=Settings(default_image="many", build_platform="linux/amd64"), files=files
    )


def _entry(name: str) -> Json:
    return {
        "architecture": "amd64",
        "file": f"{name}_1_amd64.deb",
        "licence": "MIT",
        "locator": f"pool/main/p/{name}/{name}_1_amd64.deb",
        "name": name,
        "sha256": sha256(name.encode()).hex,
        "size": 1,
        "suite": "trixie",
        "type": "deb",
        "version": "1",
    }
