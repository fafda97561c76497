# SPDX-License-Identifier: Apache-2.0
"""Patches as values: read strictly, identified by what they do, applied exactly.

Core: no IO, but for read.py.
"""
