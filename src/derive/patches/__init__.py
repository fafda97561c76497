# SPDX-License-Identifier: Apache-2.0
"""Patches as values: read strictly, identified by what they do, applied exactly.

Core: no IO. Its modules that touch the project's folder, the store or git say so.
"""
