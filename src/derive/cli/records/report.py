# SPDX-License-Identifier: Apache-2.0
"""Write the history of all releases as one page that needs nothing beside it.

Edge: what it stands for is :mod:`derive.cli.records_report`.
"""

from __future__ import annotations

from derive.cli.records_report import EXAMPLES, add_arguments, run

__all__ = ["EXAMPLES", "add_arguments", "run"]
