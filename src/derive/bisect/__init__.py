# SPDX-License-Identifier: Apache-2.0
"""Which of the edits between two states of a project flips a command's verdict: the smallest set of them.

Core: no IO.
"""
