# SPDX-License-Identifier: Apache-2.0
"""What the programs of an image take: options, the keys of JSON values, variables; and recipes held against it.

Core: no IO.
"""
