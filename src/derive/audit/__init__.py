# SPDX-License-Identifier: Apache-2.0
"""Audits: a release is derived again from nothing, by the engine that derived it, and compared with its record.

Core: no IO.
"""
