# SPDX-License-Identifier: Apache-2.0
"""Deploying a release to the nodes of a site by its digest, and keeping the machines safe meanwhile.

Core: nothing but this line.
"""
