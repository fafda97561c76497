# SPDX-License-Identifier: Apache-2.0
"""Outputs that machines share by a registry: who vouches for what, how outputs travel, and when they are taken.

Core: nothing is imported here.
"""
