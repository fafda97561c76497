# SPDX-License-Identifier: Apache-2.0
"""Fetching by hash: where an artifact may be served, and the client that brings it into the store.

Core: no IO.
"""
