# SPDX-License-Identifier: Apache-2.0
"""Planning and running builds: a plan is a value, and the executor runs it.

Core: no IO.
"""
