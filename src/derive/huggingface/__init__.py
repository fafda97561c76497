# SPDX-License-Identifier: Apache-2.0
"""Models and data sets of a Hugging Face hub: a revision, and every file of it by hash and size.

Core: no IO.
"""
