# SPDX-License-Identifier: Apache-2.0
"""By what a rendered folder is known.

Core: no IO. Standard library only.
"""

MANIFEST = "manifest.json"
MANIFEST_TAG = "launch-manifest/1"
