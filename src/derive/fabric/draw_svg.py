# SPDX-License-Identifier: Apache-2.0
"""Draw a site as a picture: machines with their cages, cables with their paths, and what each end is called.

Core: no IO. SVG 1.1, the same bytes for the same site; light or dark as the reader's screen is.

The places are those of the drawing for terminals: ranks go clockwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias
from xml.sax.saxutils import escape

from derive.fabric.cabling import MTU
from derive.fabric.draw_canvas import fitted
from derive.fabric.draw_ends import Side, cable_of, ends_from, headline, port_of
from derive.fabric.draw_style import STYLE
from derive.fabric.site import Cable, End, Node, Path, Site

_MARGIN, _TOP, _BOTTOM = 30, 96, 66
_CAGE_W, _CAGE_H = 236, 78
_ROWS = (38, 60)
"""Where the paths of a cage lie, below its upper edge."""
_APART = 22
_HEADER = 160
_CARD_W, _CARD_H = _HEADER + _CAGE_W, 196
_HEAD_W, _HEAD_H = 2 * _CAGE_W + _HEADER + 40, 122
_GAP_X, _GAP_Y = 390, 150
_WIDTH = 2 * (_MARGIN + _CARD_W) + _GAP_X
_BEND = 26

Edge: TypeAlias = Literal["left", "right", "top", "bottom"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """A machine in the picture, and where its name stands in it."""

    node: Node
    x: int
    y: int
    width: int
    height: int
    name_x: int
    name_y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cage:
    """A cage at an edge of a machine; on the right of the picture, path 1 is the outer one too."""

    rank: int
    x: int
    y: int
    edge: Edge
    side: Side

    def leave(self, index: int) -> tuple[int, int]:
        """Return where a path leaves."""
        if self.edge in ("left", "right"):
            return self.x + (0 if self.edge == "left" else _CAGE_W), self.y + _ROWS[index]
        outwards = index if self.side == "left" else 1 - index
        across = self.x + (_CAGE_W - _APART) // 2 + _APART * outwards
        return across, self.y + (0 if self.edge == "top" else _CAGE_H)


def draw_svg(site: Site) -> str:
    """Return the picture of a site."""
    draw, height = (_ring, 2 * _CARD_H) if len(site.nodes) == 4 else (_triangle, _HEAD_H + _CARD_H)
    height += _TOP + _GAP_Y + _BOTTOM
    title = headline(site)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"',
        ' role="img" aria-labelledby="fabric-title fabric-desc">',
        f'<title id="fabric-title">{escape(title)}</title>',
        f'<desc id="fabric-desc">{escape(_description(site))}</desc>',
        f"<style>\n{STYLE}\n</style>",
        f'<rect class="back" width="{_WIDTH}" height="{height}"/>',
        _text(_MARGIN, 42, site.name, "title"),
        _text(_MARGIN, 66, title.partition(": ")[2], "pale"),
        *draw(site),
        *_legend(height - 26),
        "</svg>",
        "",
    ]
    return "\n".join(lines)


def _ring(site: Site) -> Iterator[str]:
    low = _TOP + _CARD_H + _GAP_Y
    far = _WIDTH - _MARGIN - _CARD_W
    cards = [
        _corner(node, x, y, hangs=y == low)
        for node, (x, y) in zip(site.nodes, ((_MARGIN, _TOP), (far, _TOP), (far, low), (_MARGIN, low)), strict=True)
    ]
    yield from (_card(card) for card in cards)
    yield from _cable(site, _side_cage(cards[0], "right"), _side_cage(cards[1], "left"))
    yield from _cable(site, _side_cage(cards[3], "right"), _side_cage(cards[2], "left"))
    yield from _cable(site, _end_cage(cards[0], "left"), _end_cage(cards[3], "left"))
    yield from _cable(site, _end_cage(cards[1], "right"), _end_cage(cards[2], "right"))


def _triangle(site: Site) -> Iterator[str]:
    head, second, third = site.nodes
    x = (_WIDTH - _HEAD_W) // 2
    top = _Card(node=head, x=x, y=_TOP, width=_HEAD_W, height=_HEAD_H, name_x=x + _CAGE_W + 20, name_y=_TOP + 36)
    low = _TOP + _HEAD_H + _GAP_Y
    left, right = _corner(third, _MARGIN, low, hangs=True), _corner(second, _WIDTH - _MARGIN - _CARD_W, low, hangs=True)
    yield from (_card(card) for card in (top, left, right))
    inset = (_HEAD_H - _CAGE_H) // 2
    for lower, side in ((left, "left"), (right, "right")):
        edge: Side = "left" if side == "left" else "right"
        at = x if edge == "left" else x + _HEAD_W - _CAGE_W
        cage = _Cage(rank=head.rank, x=at, y=_TOP + inset, edge=edge, side=edge)
        yield from _cable(site, cage, _end_cage(lower, edge))
    yield from _cable(site, _side_cage(left, "right"), _side_cage(right, "left"))


def _corner(node: Node, x: int, y: int, *, hangs: bool) -> _Card:
    """Return a machine with one cage towards the middle and one upwards or downwards."""
    name_x = x + 20 if x == _MARGIN else x + _CAGE_W + 20
    return _Card(
        node=node,
        x=x,
        y=y,
        width=_CARD_W,
        height=_CARD_H,
        name_x=name_x,
        name_y=y + (_CARD_H - 70 if hangs else 34),
    )


def _side_cage(card: _Card, edge: Side) -> _Cage:
    hangs = card.name_y > card.y + _CARD_H // 2
    x = card.x if edge == "left" else card.x + card.width - _CAGE_W
    y = card.y + (card.height - _CAGE_H - 14 if hangs else 14)
    return _Cage(rank=card.node.rank, x=x, y=y, edge=edge, side=edge)


def _end_cage(card: _Card, side: Side) -> _Cage:
    hangs = card.name_y > card.y + _CARD_H // 2
    x = card.x + 20 if side == "left" else card.x + card.width - _CAGE_W - 20
    y = card.y if hangs else card.y + card.height - _CAGE_H
    return _Cage(rank=card.node.rank, x=x, y=y, edge="top" if hangs else "bottom", side=side)


def _card(card: _Card) -> str:
    node, x, y = card.node, card.name_x, card.name_y
    kind, rank = ("card head", "rank 0, head") if node.rank == 0 else ("card", f"rank {node.rank}")
    size = 18 if len(node.name) <= 13 else 12
    name = escape(fitted(node.name, 20))
    lines = [
        f'<rect class="{kind}" x="{card.x}" y="{card.y}" width="{card.width}" height="{card.height}" rx="10"/>',
        f'<text class="name" x="{x}" y="{y}" style="font-size:{size}px">{name}</text>',
        _text(x, y + 20, rank),
        _text(x, y + 39, node.address, "mono"),
        _text(x, y + 55, node.interface, "mono pale"),
    ]
    return "\n".join(lines)


def _cable(site: Site, here: _Cage, there: _Cage) -> Iterator[str]:
    """Yield a cable with its paths, what they are called, and the cages at both ends."""
    cable = cable_of(site, here.rank, there.rank)
    if cable is None:
        return
    paths = list(enumerate(cable.paths[:2]))
    yield f'<path class="cable" d="{_line(here, there, None)}"/>'
    for index, _ in paths:
        yield f'<path class="path p{index + 1}" d="{_line(here, there, index)}"/>'
    for index, path in paths:
        yield from _labels(here, there, index, path)
    yield from _cage(cable, here)
    yield from _cage(cable, there)


def _line(here: _Cage, there: _Cage, index: int | None) -> str:
    """Return the way of a path, or that of the cable's middle."""
    (x, y), (to_x, to_y) = _leave(here, index), _leave(there, index)
    if here.edge == "bottom":
        return f"M{x} {y}V{to_y}"
    if there.edge in ("left", "right"):
        return f"M{x} {y}H{to_x}"
    # The outer path has the wider bend, so that the two stay as far apart as they are.
    bend = _BEND + (_APART // 2 if index is None else _APART * (1 - index))
    away = -1 if to_x < x else 1
    return f"M{x} {y}H{to_x - away * bend}A{bend} {bend} 0 0 {0 if away < 0 else 1} {to_x} {y + bend}V{to_y}"


def _leave(cage: _Cage, index: int | None) -> tuple[int, int]:
    if index is not None:
        return cage.leave(index)
    (x, y), (other_x, other_y) = cage.leave(0), cage.leave(1)
    return (x + other_x) // 2, (y + other_y) // 2


def _labels(here: _Cage, there: _Cage, index: int, path: Path) -> Iterator[str]:
    end, other = ends_from(path, here.rank)
    (x, y), (to_x, to_y) = here.leave(index), there.leave(index)
    kind = f"mono t{index + 1}"
    if there.edge in ("left", "right"):
        yield _text(x + 16, y + 4, end.address, f"{kind} halo")
        yield _text((x + to_x) // 2, y + 4, path.subnet, f"{kind} halo middle")
        yield _text(to_x - 16, to_y + 4, other.address, f"{kind} halo end")
        return
    before = (index == 0) == (there.side == "left")
    beside, anchor = (to_x - 24, " end") if before else (to_x + 24, "")
    top = to_y - _GAP_Y
    for at, text in ((32, end.address), (_GAP_Y // 2, path.subnet), (_GAP_Y - 32, other.address)):
        yield _text(beside, top + at + 4, text, kind + anchor)


def _cage(cable: Cable, cage: _Cage) -> Iterator[str]:
    yield f'<rect class="cage" x="{cage.x}" y="{cage.y}" width="{_CAGE_W}" height="{_CAGE_H}" rx="6"/>'
    yield _text(cage.x + 12, cage.y + 19, f"port {port_of(cable, cage.rank)}", "port")
    for index, path in enumerate(cable.paths[:2]):
        y = cage.y + _ROWS[index]
        end: End = ends_from(path, cage.rank)[0]
        yield _number(cage.x + 18, y, index)
        yield _text(cage.x + 33, y + 4, fitted(end.device, 13), "mono")
        yield _text(cage.x + _CAGE_W - 10, y + 4, fitted(end.interface, 15), "mono end")


def _number(x: int, y: int, index: int) -> str:
    return f'<circle class="d{index + 1}" cx="{x}" cy="{y}" r="8"/>{_text(x, y + 4, str(index + 1), "dot")}'


def _legend(y: int) -> Iterator[str]:
    x = _MARGIN
    for index, words in enumerate(("path 1, over the first PCIe root", "path 2, over the second")):
        yield f'<path class="path p{index + 1}" d="M{x} {y}H{x + 34}"/>'
        yield _number(x + 17, y, index)
        yield _text(x + 46, y + 4, words, "pale")
        x += 270
    yield _text(_WIDTH - _MARGIN, y + 4, f"on each path its subnet, at its ends the addresses; MTU {MTU}", "pale end")


def _description(site: Site) -> str:
    """Return the picture in words, for those who do not see it."""
    cables = []
    for cable in site.cables:
        one, other = (site.nodes[rank].name for rank in cable.ranks)
        paths = []
        for path in cable.paths:
            here, there = ends_from(path, cable.ranks[0])
            ends = " to ".join(f"{end.device}, {end.interface}, {end.address}" for end in (here, there))
            paths.append(f"path {path.number}, {path.subnet}: {ends}")
        cables.append(f"{one} port {cable.ports[0]} to {other} port {cable.ports[1]}; {'; '.join(paths)}.")
    return " ".join(cables)


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    styled = f' class="{kind}"' if kind else ""
    return f'<text{styled} x="{x}" y="{y}">{escape(text)}</text>'
