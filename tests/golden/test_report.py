# SPDX-License-Identifier: Apache-2.0
"""The page of a report, byte for byte, and the outline of that of this repository's own records.

A difference in the first is a difference in what people see: look at the page in a browser before accepting it.
"""

from __future__ import annotations

from pathlib import Path

from derive.report.gather import gather
from derive.report.page import page
from derive.report.read import files_of_records, page_template
from support.golden import check_golden
from support.html import outline
from support.reported import everything

ROOT = Path(__file__).parents[2]


def test_the_page_of_records_of_every_kind() -> None:
    check_golden("report/page.html", page(gather(everything()), page_template()).decode())


def test_the_page_of_this_repository_is_whole() -> None:
    found = outline(page(gather(files_of_records(ROOT)), page_template()))
    assert found.wrong == []
    assert found.open == []
    assert found.headings.count("h3 r6d, after r6c") == 1
