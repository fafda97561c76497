# SPDX-License-Identifier: Apache-2.0
"""What is said of an image from outside: what it is made of, how it came to be, and who vouches for that.

Core: no IO in this module.
"""
