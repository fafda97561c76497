# SPDX-License-Identifier: Apache-2.0
"""Promotion: what must be known of a release before a shape of it is deployed, and what a deploy asks afterwards.

Core: no IO.
"""
