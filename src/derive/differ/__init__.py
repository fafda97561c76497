# SPDX-License-Identifier: Apache-2.0
"""What differs between two files or two trees, told by what they are, down to the inner file, within limits.

Core: no IO.
"""
