# SPDX-License-Identifier: Apache-2.0
"""Wheels: what they say of themselves, where their files go, their RECORD and their byte code.

Core: no IO.
"""
