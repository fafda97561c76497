# SPDX-License-Identifier: Apache-2.0
"""Steps that BuildKit runs: on a builder of this machine, of another, or of a cluster. Page: docs/buildkit.md.

Core: imports nothing.
"""
