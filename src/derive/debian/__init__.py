# SPDX-License-Identifier: Apache-2.0
"""Debian packages and roots: control stanzas, and file systems made of unpacked packages without running their scripts.

Core: no IO.
"""
