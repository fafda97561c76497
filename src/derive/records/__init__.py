# SPDX-License-Identifier: Apache-2.0
"""Records: everything that the project writes down about itself has one shape.

Core: no IO.
"""
