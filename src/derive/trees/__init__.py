# SPDX-License-Identifier: Apache-2.0
"""Trees as values: listings, their NAR serialisation and digest, unions and differences.

Core: no IO.
"""
