# SPDX-License-Identifier: Apache-2.0
"""Git upstreams: found, fetched by commit, and proved from their contents alone.

Core: no IO.
"""
