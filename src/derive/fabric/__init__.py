# SPDX-License-Identifier: Apache-2.0
"""What joins the machines: sites, cables, transports, and the rules that they obey.

Core: no IO.
"""
