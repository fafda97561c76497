# SPDX-License-Identifier: Apache-2.0
"""Who vouches for what: keys, signed statements, and whose word a project takes.

Core: no IO in this module.
"""
