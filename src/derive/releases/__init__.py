# SPDX-License-Identifier: Apache-2.0
"""Releases: what is deployed by one digest, described, written down, found again, and laid out as a project.

Core: no IO.
"""
