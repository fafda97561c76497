# SPDX-License-Identifier: Apache-2.0
"""How a model is served: recipes, their shapes, and what follows from both.

Core: no IO.
"""
