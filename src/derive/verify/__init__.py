# SPDX-License-Identifier: Apache-2.0
"""Verifies images without running them: probes read files and give facts, rules turn facts into findings.

Core: no IO.
"""
