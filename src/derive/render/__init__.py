# SPDX-License-Identifier: Apache-2.0
"""From a resolved shape and a site to the files that start it on each node.

Core: no IO.
"""

RENDERER = "render/1"
"""The renderer's version, which is in every shape bundle: a change in the bytes of any form needs a new one."""
