# SPDX-License-Identifier: Apache-2.0
"""A sound project in memory, with one declaration of each builder, for tests that break it.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from derive.derivations.model import Platform
from derive.lock.documents import Lock, render_lock
from derive.lock.wishes import require_wish, wish_digest
from derive.project import Project, Settings
from support.locks import debian_lock, python_lock

DEBIAN_WISH = """\
kind = "debian"
suite = "trixie"

[keyring]
locator = "pool/main/k/keys/keys_1_all.deb"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
size = 1
member = "usr/share/keyrings/keys.pgp"

[closures.run]
architectures = ["amd64", "arm64"]
packages = ["aa", "bb"]

[sources]
packages = ["bb"]
"""

_PYTHON_WISH = """\
kind = "python"
pythons = ["3.13"]
architectures = ["amd64", "arm64"]
glibc = "2.41"
exclude-newer = "2026-11-20T00:00:00Z"
requirements = ["a"]
"""

_DERIVATIONS = """\
[root]
builder = "debian-root"
set = "x"
closure = "run"

[source]
builder = "unpack"
kind = "tar"
from = { set = "x", source = "b" }

[patched]
builder = "patch"
from = "source"
series = "b"

[script]
builder = "script"
root = "root"
inputs = { in = "patched" }
script = "build.sh"
files = ["extra.h"]
timeout = 9

[programs]
builder = "wheels"
set = "w"
python = "3.13"
root = "root"

[code]
builder = "bytecode"
from = "programs"
root = "root"
python = "3.13"
paths = ["/usr/lib/python3.13"]

[all]
builder = "compose"
parts = [{ from = "programs" }, { from = "script" }]
"""

_IMAGE = """\
platforms = ["linux/amd64", "linux/arm64"]
default-platform = "linux/arm64"

[[layers]]
name = "base"
from = ["root"]

[[layers]]
name = "rest"
from = ["all", "code"]
"""

_PATCH = """\
--- a/file
+++ b/file
@@ -1 +1 @@
-old
+new
"""


def pinned(lock: Lock, wish: str) -> bytes:
    """Return the lock file of a set whose wish is this text."""
    return render_lock(replace(lock, wish=wish_digest(require_wish(wish.encode(), "wish"))))


FILES: Mapping[str, str | bytes] = {
    "derivations/d.toml": _DERIVATIONS,
    "derivations/d/build.sh": "make\n",
    "derivations/d/extra.h": "#define X\n",
    "images/image.toml": _IMAGE,
    "lock/w.toml": _PYTHON_WISH,
    "lock/w.lock.json": pinned(replace(python_lock(), set="w"), _PYTHON_WISH),
    "lock/x.toml": DEBIAN_WISH,
    "lock/x.lock.json": pinned(debian_lock(), DEBIAN_WISH),
    "patches/b/series": "# licence: MIT\n0001-a.patch\n",
    "patches/b/0001-a.patch": _PATCH,
}
"""The files of the sound project, by path."""


def project(
    changes: Mapping[str, str | bytes | None], *, default_image: str = "image", build_platform: Platform = "linux/amd64"
) -> Project:
    """Return the sound project with files replaced, added, or (None) removed."""
    files = {**FILES, **changes}
    return Project(
        root=Path("/project"),
        settings=Settings(default_image=default_image, build_platform=build_platform),
        files={
            path: data.encode() if isinstance(data, str) else data
            for path, data in sorted(files.items())
            if data is not None
        },
    )
