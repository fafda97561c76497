# SPDX-License-Identifier: Apache-2.0
"""Kernels as derivations: what a kernel declares, what is compiled of it, and what that says of itself.

Core: no IO.
"""
