# SPDX-License-Identifier: Apache-2.0
"""Certificates: a builder says under its own key what it derived, and on what machine; others count who agrees.

Core: no IO.
"""
