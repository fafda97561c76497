# SPDX-License-Identifier: Apache-2.0
"""A new project: the smallest one that derives an image.

Core: no IO.
"""
