# SPDX-License-Identifier: Apache-2.0
"""Sets of upstreams: git repositories, files at URLs, images of registries, models, and what is only watched.

Core: no IO.
"""
