# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from derive.fabric.draw_style import STYLE
from derive.fabric.draw_svg import draw_svg
from derive.fabric.site import Cabling
from support.cli import CHECKOUT, SOURCES
from support.fabrics import example_site, with_one_path, without_cable
from support.golden import check_golden

CABLINGS: tuple[Cabling, ...] = ("triangle", "ring4")
of_each_cabling = pytest.mark.parametrize("cabling", CABLINGS)
SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)


@of_each_cabling
def test_a_site_is_pictured_as_reviewed(cabling: Cabling) -> None:
    check_golden(f"drawings/{cabling}.svg", draw_svg(example_site(cabling)))


def test_the_picture_of_the_page_is_this_one() -> None:
    assert (CHECKOUT / "docs" / "fabric-ring4.svg").read_text() == draw_svg(example_site("ring4"))


@of_each_cabling
def test_the_picture_has_a_title_and_is_told_in_words(cabling: Cabling) -> None:
    site = example_site(cabling)
    root = parsed(draw_svg(site))
    labels = [
        element.get("id") for element in (root.find(f"{SVG}title"), root.find(f"{SVG}desc")) if element is not None
    ]
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == " ".join(str(label) for label in labels)
    told = root.findtext(f"{SVG}desc", "")
    for cable in site.cables:
        one, other = (site.nodes[rank].name for rank in cable.ranks)
        assert f"{one} port {cable.ports[0]} to {other} port {cable.ports[1]}" in told
        for path in cable.paths:
            assert all(text in told for end in path.ends for text in (end.device, end.interface, end.address))


@of_each_cabling
def test_every_end_is_written_in_the_picture(cabling: Cabling) -> None:
    site = example_site(cabling)
    texts = [element.text for element in parsed(draw_svg(site)).iter(f"{SVG}text")]
    for cable in site.cables:
        for path in cable.paths:
            assert texts.count(path.subnet) == 1
            for end in path.ends:
                assert texts.count(end.address) == 1
                assert texts.count(end.device) >= 1
                assert texts.count(end.interface) >= 1


@of_each_cabling
def test_nothing_is_fetched_run_or_embedded(cabling: Cabling) -> None:
    text = draw_svg(example_site(cabling))
    assert {element.tag.removeprefix(SVG) for element in parsed(text).iter()} <= {
        *("svg", "title", "desc", "style", "rect", "text", "path", "circle"),
    }
    assert re.findall(r"https?:[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"url\(|@import|@font-face|href|data:", text)


@of_each_cabling
def test_names_with_marks_of_xml_are_written_as_text(cabling: Cabling) -> None:
    site = example_site(cabling)
    odd = replace(site, name="a<b>&c", nodes=(replace(site.nodes[0], name="<&>"), *site.nodes[1:]))
    texts = [element.text for element in parsed(draw_svg(odd)).iter(f"{SVG}text")]
    assert "a<b>&c" in texts
    assert "<&>" in texts


@of_each_cabling
def test_all_that_is_drawn_lies_in_the_picture(cabling: Cabling) -> None:
    root = parsed(draw_svg(example_site(cabling)))
    width, height = int(root.get("width", 0)), int(root.get("height", 0))
    for element in root.iter():
        for x, y in (("x", "y"), ("cx", "cy")):
            if element.get(x) is not None:
                assert 0 <= int(element.get(x, "")) <= width
                assert 0 <= int(element.get(y, "")) <= height


@of_each_cabling
def test_a_missing_cable_and_a_missing_path_are_left_out(cabling: Cabling) -> None:
    whole = parsed(draw_svg(example_site(cabling)))
    cables = len(example_site(cabling).cables)

    def count(root: ET.Element, kind: str) -> int:
        return sum(kind in (element.get("class") or "").split() for element in root.iter(f"{SVG}path"))

    assert (count(whole, "cable"), count(whole, "p2")) == (cables, cables + 1)
    fewer = parsed(draw_svg(without_cable(example_site(cabling), 0)))
    assert count(fewer, "cable") == cables - 1
    single = parsed(draw_svg(with_one_path(example_site(cabling))))
    assert (count(single, "p1"), count(single, "p2")) == (cables + 1, 1)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_texts_stand_out_from_what_they_stand_on_in_light_and_dark(dark: bool) -> None:
    light, _, night = STYLE.partition("@media")
    colours: dict[str, dict[str, str]] = {}
    for part in (light, night) if dark else (light,):
        for selector, rules in re.findall(r"([.\w]+) \{([^{}]*)\}", part):
            colours.setdefault(selector, {}).update(re.findall(r"(fill|stroke): (#\w{6})", rules))
    pairs = [
        *((ink, ground) for ink in ("text", ".pale") for ground in (".back", ".card", ".cage")),
        *((ink, ground) for ink in (".t1", ".t2") for ground in (".back", ".halo")),
        (".dot", ".d1"),
        (".dot", ".d2"),
    ]
    for ink, ground in pairs:
        under = colours[ground].get("fill") or colours[ground]["stroke"]
        assert _contrast(colours[ink]["fill"], under) >= 4.5, (ink, ground)


def test_the_bytes_hang_on_no_locale_folder_or_hash_seed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from derive.project import load_launching\n"
        "from derive.fabric.examples import example; from derive.fabric.draw_svg import draw_svg\n"
        "files = load_launching(Path(sys.argv[1]))\n"
        "sys.stdout.buffer.write(draw_svg(example(files, 'ring4')).encode())"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONHASHSEED": "7", "LC_ALL": "C", "TZ": "Asia/Tokyo"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, str(CHECKOUT)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=True,
    )
    assert done.stdout == draw_svg(example_site("ring4")).encode()
