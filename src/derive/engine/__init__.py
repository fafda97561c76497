# SPDX-License-Identifier: Apache-2.0
"""The engine as a derivation: its source, the root and libraries it runs with, and the sandbox that it runs in.

Core: no IO.
"""
