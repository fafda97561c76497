# SPDX-License-Identifier: Apache-2.0
"""Capsules: everything from which a release derives with no network, in one OCI layout or one file.

Core: no IO.
"""
