# SPDX-License-Identifier: Apache-2.0
"""What must hold of an image: each module judges some rules, from facts to findings.

Core: no IO.
"""
