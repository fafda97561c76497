# SPDX-License-Identifier: Apache-2.0
"""The files of a new project, as text.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping

_PYPROJECT = """\
[tool.derive]
format = 1
default-image = "{name}"
build-platform = "linux/amd64"
"""

_LOCK = """\
# What is wanted of Debian 13. `derive lock` finds it and writes trixie.lock.json; --outdated looks for news.
kind = "debian"
suite = "trixie"
components = ["main"]

# The archive's public keys: the package that holds them, by hash.
[keyring]
locator = "pool/main/d/debian-archive-keyring/debian-archive-keyring_2025.1_all.deb"
sha256 = "9ea7778e443144ca490668737a8ab22dd3e748bb99e805e22ec055abeb3c7fac"
size = 179244
member = "usr/share/keyrings/debian-archive-keyring.pgp"

[closures.base]
architectures = ["amd64", "arm64"]
packages = ["busybox-static"]
"""

_DERIVATIONS = """\
# How each thing is built. This root has no package whose scripts would have to run; one that has them must say, under
# [base.covered] or [base.waived], why they need not.

[base]
builder = "debian-root"
set = "trixie"
closure = "base"

[base.alternatives]
"/bin/sh" = "/usr/bin/busybox"

# A script runs in the sandbox over a root, without network; what it installs below $DERIVE_OUT is its output.
[hello]
builder = "script"
root = "base"
script = "hello.sh"
"""

_SCRIPT = """\
#!/bin/sh
set -eu
busybox mkdir -p "$DERIVE_OUT/usr/share/{name}"
echo "derived for $DERIVE_HOST" > "$DERIVE_OUT/usr/share/{name}/hello"
"""

_IMAGE = """\
# What makes the image {name}: its layers, from bottom to top, and how a container of it starts.
platforms = ["linux/amd64", "linux/arm64"]
default-platform = "linux/amd64"

[[layers]]
name = "base"
from = ["base"]

[[layers]]
name = "hello"
from = ["hello"]

[config]
command = ["/usr/bin/busybox", "cat", "/usr/share/{name}/hello"]
"""


def project_files(name: str) -> Mapping[str, str]:
    """Return the files of a new project by their path; ``name`` is the image's."""
    texts = {
        "pyproject.toml": _PYPROJECT,
        "lock/trixie.toml": _LOCK,
        f"derivations/{name}.toml": _DERIVATIONS,
        f"derivations/{name}/hello.sh": _SCRIPT,
        f"images/{name}.toml": _IMAGE,
    }
    return {path: text.format(name=name) for path, text in texts.items()}
