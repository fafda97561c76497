# SPDX-License-Identifier: Apache-2.0
"""Who runs which step of a plan, and when: this machine, builders elsewhere, hosts that serve models only when idle.

Core: imports nothing.
"""
