# SPDX-License-Identifier: Apache-2.0
"""Programs that run on a node: standard library only, Python 3.8 or newer, sent over SSH as text with each effect.

Edge: the node.
"""
