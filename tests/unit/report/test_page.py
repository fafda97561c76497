# SPDX-License-Identifier: Apache-2.0
"""The page: complete in itself, the same bytes for the same records, readable without colour, script or network."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import pytest

from derive.report.gather import gather
from derive.report.page import page, percent, summary
from derive.report.read import page_template
from support.html import Outline, outline
from support.reported import Records, everything, release


@cache
def sample() -> tuple[bytes, Outline]:
    html = rendered(everything())
    return html, outline(html)


def rendered(files: dict[str, bytes]) -> bytes:
    return page(gather(files), page_template())


def test_every_element_is_closed_in_order() -> None:
    found = sample()[1]
    assert found.wrong == []
    assert found.open == []


def test_nothing_is_fetched_and_nothing_runs() -> None:
    html = sample()[0]
    found = sample()[1]
    assert not {"script", "link", "img", "iframe", "object", "use", "image"} & found.tags.keys()
    assert not [one for one in found.attributes if one[1] in ("src", "style") or one[1].startswith("on")]
    assert all(value.startswith("#") for _, key, value in found.attributes if key == "href")
    assert not re.search(rb"url\(|@import|https?://", html)


def test_headings_name_every_section_and_come_in_order() -> None:
    found = [one for one in sample()[1].headings if not one.startswith("h3")]
    assert found == [
        "h1 Releases",
        "h2 Releases",
        "h2 What changed",
        "h2 Figures",
        "h2 Image sizes",
        "h2 Re-derivability",
        "h2 Promotions and waivers",
        "h2 Certificates",
        "h2 Audits",
        "h2 Experiments and observations",
        "h2 Chain",
    ]


def test_every_header_of_a_table_says_what_it_heads() -> None:
    found = sample()[1]
    scopes = [value for tag, key, value in found.attributes if tag == "th" and key == "scope"]
    assert len(scopes) == found.tags["th"]
    assert set(scopes) == {"col", "row"}


def test_every_picture_has_words_or_stands_beside_its_number() -> None:
    found = sample()[1]
    pictures = [value for tag, key, value in found.attributes if tag == "svg" and key in ("role", "aria-hidden")]
    assert len(pictures) == found.tags["svg"]
    assert found.tags["desc"] == pictures.count("img") == 3


def test_links_lead_to_a_place_of_the_page_and_no_name_is_given_twice() -> None:
    found = sample()[1]
    assert len(found.ids) == len(set(found.ids))
    assert {value[1:] for _, key, value in found.attributes if key == "href"} <= set(found.ids)
    named = " ".join(value for _, key, value in found.attributes if key == "aria-labelledby").split()
    assert set(named) <= set(found.ids)


def test_what_is_not_there_is_said() -> None:
    html = rendered({}).decode()
    assert html.count("None yet") + html.count("none yet") == 10
    assert outline(html.encode()).wrong == []


def test_a_broken_chain_is_said_at_the_top_and_at_the_end() -> None:
    files = everything()
    files["releases/0001-e1.json"] = files["releases/0001-e1.json"].replace(b"38.20", b"18.20")
    html = rendered(files).decode()
    assert ">2 faults<" in html or ">1 fault<" in html
    assert "they did not hold together" in html
    assert "edited since it was written" in html


def test_text_of_a_record_is_text_on_the_page() -> None:
    assert b"a new &lt;b&gt;tool&lt;/b&gt;" in sample()[0]


def test_a_release_without_a_date_stands_on_the_line_and_says_so() -> None:
    records = Records()
    records.historical("alone")
    html = rendered(records.files).decode()
    assert "mark historical undated" in html
    assert "date not known" in html


def test_why_a_release_cannot_be_derived_is_said_once_for_all_of_which_it_holds() -> None:
    html = sample()[0].decode()
    assert html.count("e1, e2, e3: what it was built from is not known") == 1


def test_when_a_waiver_expires_is_told_only_where_there_is_one() -> None:
    records, (found, facts) = Records(), release("demo")
    records.candidate("demo-1", found, facts, 0, None, "first")
    records.promoted("demo-1", found, "ring", 1, [])
    records.promoted("demo-1", found, "ring", 2, [])
    html = rendered(records.files).decode()
    assert "A waiver has expired" not in html
    assert "A waiver has expired" in sample()[0].decode()
    assert html.count("(promoted again since)") == 1


def test_states_differ_in_shape_and_not_in_colour_alone() -> None:
    html = sample()[0].decode()
    shapes = {
        state: re.findall(rf'class="mark {state}" d="([^"]*)"', html)
        for state in ("historical", "candidate", "promoted", "retired")
    }
    outlines = {state: re.sub(r"-?[0-9.]+", "", found[0]) for state, found in shapes.items()}
    assert len(set(outlines.values())) == 4


def test_the_same_records_give_the_same_bytes() -> None:
    assert sample()[0] == rendered(dict(reversed(everything().items())))


@pytest.mark.parametrize(("basis_points", "text"), [(10_000, "100.00%"), (9_615, "96.15%"), (7, "0.07%"), (0, "0.00%")])
def test_scores_are_percentages_with_two_decimals(basis_points: int, text: str) -> None:
    assert percent(basis_points) == text


def test_the_summary_counts_releases_and_records() -> None:
    assert summary(gather(everything())) == "3 releases and 3 historical, 10 records; the chain holds"


def test_hundreds_of_releases_keep_their_labels_apart() -> None:
    records = Records()
    for number in range(300):
        records.historical(f"e{number}", "2026-10-01" if number % 3 else None)
    html = rendered(records.files).decode()
    places = sorted(float(found) for found in re.findall(r'<text x="[0-9.]+" y="([0-9.]+)"><tspan class="name">', html))
    assert len(places) == 300
    assert min(after - before for before, after in pairwise(places)) >= 21.8
