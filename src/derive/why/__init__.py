# SPDX-License-Identifier: Apache-2.0
"""Why something was built, by which path one thing needs another, and what moved between two.

Core: no IO.
"""
