# SPDX-License-Identifier: Apache-2.0
"""The store: blobs by hash, trees as listings over them, realisations and roots in one database.

Core: no IO.
"""
