# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from dataclasses import replace

import pytest

from derive.fabric.draw import draw
from derive.fabric.draw_canvas import Canvas, fitted
from derive.fabric.site import Cabling, Site
from support.fabrics import example_site, with_one_path, without_cable
from support.golden import check_golden

CABLINGS: tuple[Cabling, ...] = ("triangle", "ring4")
of_each_cabling = pytest.mark.parametrize("cabling", CABLINGS)
COLOUR = re.compile("\x1b\\[[0-9]*m")


def picture(text: str) -> list[str]:
    """Return the rows between the title and the table."""
    return text.split("\n\n")[1].splitlines()


def long_names(site: Site) -> Site:
    nodes = tuple(
        replace(node, name="a-machine-with-a-long-name-" + "x" * 30, address="192.168.100.100") for node in site.nodes
    )
    return replace(site, nodes=nodes)


@of_each_cabling
@pytest.mark.parametrize("width", [80, 120])
def test_a_site_is_drawn_as_reviewed(cabling: Cabling, width: int) -> None:
    check_golden(f"drawings/{cabling}-{width}.txt", draw(example_site(cabling), width=width) + "\n")


@of_each_cabling
@pytest.mark.parametrize("width", [1, 76, 80, 99, 100, 120, 400])
def test_no_line_is_wider_than_the_terminal_and_pictures_stop_growing(cabling: Cabling, width: int) -> None:
    widest = max(map(len, draw(example_site(cabling), width=width).splitlines()))
    assert widest <= max(76, min(width, 120))


@of_each_cabling
def test_colour_changes_no_character(cabling: Cabling) -> None:
    coloured = draw(example_site(cabling), colour=True)
    assert "\x1b[" in coloured
    plain = [line.rstrip() for line in COLOUR.sub("", coloured).splitlines()]
    assert plain == draw(example_site(cabling)).splitlines()


@of_each_cabling
def test_every_end_of_every_path_is_named(cabling: Cabling) -> None:
    site = example_site(cabling)
    for width in (80, 120):
        text = draw(site, width=width)
        for cable in site.cables:
            for path in cable.paths:
                assert path.subnet in text
                for end in path.ends:
                    assert all(word in text.split() for word in (end.address, end.device, end.interface))


@of_each_cabling
@pytest.mark.parametrize("width", [80, 120])
def test_each_line_of_a_cable_goes_from_cage_to_cage(cabling: Cabling, width: int) -> None:
    rows = picture(draw(example_site(cabling), width=width))
    grid = [row.ljust(width) for row in rows]
    for y, row in enumerate(grid):
        for x, character in enumerate(row):
            if character in "┬┴" and 0 < y < len(grid) - 1:
                below, above = grid[y + 1][x], grid[y - 1][x]
                assert (below in "│┴") if character == "┬" else (above in "│┬┌┐╮╭" or below == "│")
            if character == "╭" and row[x + 1] == "─":
                assert grid[y + 1][x] in "│├12"


@of_each_cabling
def test_long_names_are_cut_and_push_nothing_aside(cabling: Cabling) -> None:
    site = long_names(example_site(cabling))
    rows = picture(draw(site, width=80))
    assert max(map(len, rows)) == 80
    assert sum("…" in row for row in rows) >= 2
    assert sum(row.count("192.168.100.100") for row in rows) == len(site.nodes)


@of_each_cabling
def test_cables_with_one_path_have_one_line(cabling: Cabling) -> None:
    site = with_one_path(example_site(cabling))
    text = draw(site)
    assert not any(path in text for path in ("path 2", "2 ·"))
    assert all(cable.paths[0].subnet in text for cable in site.cables)


@of_each_cabling
def test_a_cable_that_is_not_there_is_not_drawn(cabling: Cabling) -> None:
    whole, broken = example_site(cabling), without_cable(example_site(cabling), 1)
    gone = whole.cables[1].paths[0].subnet
    assert gone in draw(whole)
    assert gone not in draw(broken)


def test_ports_are_those_of_the_site_not_of_the_usual_wiring() -> None:
    site = example_site("ring4")
    turned = replace(site, cables=tuple(replace(cable, ports=cable.ports[::-1]) for cable in site.cables))
    rows = picture(draw(turned))
    assert "│  1   ├" in rows[5]
    assert "port 0" in rows[6]


def test_a_canvas_grows_and_covers() -> None:
    canvas = Canvas()
    canvas.put(3, 1, "ab")
    canvas.put(4, 1, "c", "strong")
    assert canvas.text(colour=False) == "\n   ac"
    assert canvas.text(colour=True) == "\n   a\x1b[1mc\x1b[0m"


@pytest.mark.parametrize(("width", "text"), [(9, "abcdef"), (6, "abcdef"), (4, "abc…"), (1, "…"), (0, "…")])
def test_text_is_cut_with_a_mark(width: int, text: str) -> None:
    assert fitted("abcdef", width) == text
