# SPDX-License-Identifier: Apache-2.0
"""What a node's launch files follow from, and whether they follow: rendered again, they are the same bytes.

Core: no IO.
"""
