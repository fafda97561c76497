# SPDX-License-Identifier: Apache-2.0
"""The report of records: one page that says what was released, what changed, and how well it can be derived again.

Core: no IO. Records are read by their shape, never by a list of kinds: what later work writes down is shown too.
"""

from derive.report.history import Compared, compare_historical

__all__ = ["Compared", "compare_historical"]
