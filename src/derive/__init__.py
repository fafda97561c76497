# SPDX-License-Identifier: Apache-2.0
"""Hermetic build and deploy pipeline for vLLM on DGX Spark clusters.

Core: no IO.
"""

__version__ = "0.1.0"
