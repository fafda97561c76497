# SPDX-License-Identifier: Apache-2.0
"""Images of registries: what a reference means now, pinned by digest, and their blobs in the store.

Core: no IO.
"""
