# SPDX-License-Identifier: Apache-2.0
"""The command line: one file per command, each declaring arguments, calling the library, rendering the answer.

Core: no IO.
"""
