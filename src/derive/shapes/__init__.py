# SPDX-License-Identifier: Apache-2.0
"""What two shapes, recipes, sites or rendered folders tell each node, side by side, and what caused each difference.

Core: no IO.
"""
