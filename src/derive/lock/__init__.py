# SPDX-License-Identifier: Apache-2.0
"""What is wanted, and exactly which bytes were found for it: see docs/formats/lock.md.

Core: no IO.
"""
