# SPDX-License-Identifier: Apache-2.0
"""What a shape takes of each rank's memory, said before anything runs, and whether it fits.

Core: no IO.
"""
