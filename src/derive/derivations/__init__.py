# SPDX-License-Identifier: Apache-2.0
"""Derivations: how each thing is built, as documents whose hashes are their identities.

Core: no IO.
"""
