# SPDX-License-Identifier: Apache-2.0
"""Checks of a project, its recipes and its site, as a table of data, and the judges of each.

Core: no IO.
"""
