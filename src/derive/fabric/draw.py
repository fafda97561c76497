# SPDX-License-Identifier: Apache-2.0
"""Draw a site for a terminal: machines with their cages, cables with their paths, and below them every end.

Core: no IO. Standard library only.

Ranks go clockwise. A cage is a box at the edge of its machine; a path is a line from cage to cage.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.fabric.draw_canvas import Canvas, Ink, fitted, inked
from derive.fabric.draw_ends import PATH_INKS, Side, cable_of, cable_tables, ends_from, headline, port_of
from derive.fabric.site import Cable, Node, Path, Site

LEAST_WIDTH, MOST_WIDTH = 76, 120
"""Columns that a picture takes, whatever the terminal has."""

_BOX_HEIGHT, _LEAST_BOX = 8, 26
_CAGE, _LEAST_GAP = 8, 22
_BETWEEN = 4
"""Rows between machines that stand above each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Box:
    """A machine in the picture; one that hangs below others has its name at the bottom and a cage at the top."""

    node: Node
    x: int
    y: int
    width: int
    hangs: bool = False

    @property
    def right(self) -> int:
        return self.x + self.width - 1

    @property
    def path_row(self) -> int:
        """Return the row of path 1 in the cages at the sides; path 2 is below it."""
        return self.y + (2 if self.hangs else 4)

    def cage_x(self, side: Side) -> int:
        """Return where a cage at the top or bottom begins."""
        return self.x + 2 if side == "left" else self.right - 1 - _CAGE


def draw(site: Site, *, width: int = 80, colour: bool = False) -> str:
    """Return the picture and the table of ends, for a terminal of so many columns."""
    width = min(max(width, LEAST_WIDTH), MOST_WIDTH)
    canvas = Canvas()
    if len(site.nodes) == 4:
        _draw_ring(canvas, site, width)
    else:
        _draw_triangle(canvas, site, width)
    title = inked(headline(site), "strong", colour=colour)
    return "\n\n".join([title, canvas.text(colour=colour), *cable_tables(site, width, colour=colour)])


def _draw_ring(canvas: Canvas, site: Site, width: int) -> None:
    size = _box_width(site, (width - _LEAST_GAP) // 2)
    right, below = width - size, _BOX_HEIGHT + _BETWEEN
    places = ((0, 0), (right, 0), (right, below), (0, below))
    boxes = [
        _Box(node=node, x=x, y=y, width=size, hangs=y > 0) for node, (x, y) in zip(site.nodes, places, strict=True)
    ]
    for box in boxes:
        _draw_box(canvas, box)
    _draw_level(canvas, site, boxes[0], boxes[1])
    _draw_level(canvas, site, boxes[3], boxes[2])
    _draw_upright(canvas, site, boxes[0], boxes[3], "left", width)
    _draw_upright(canvas, site, boxes[1], boxes[2], "right", width)


def _draw_triangle(canvas: Canvas, site: Site, width: int) -> None:
    size = _box_width(site, (width - _LEAST_GAP) // 2)
    below = _BOX_HEIGHT + _BETWEEN - 1
    head, second, third = site.nodes
    top = _Box(node=head, x=(width - size) // 2, y=0, width=size)
    left = _Box(node=third, x=0, y=below, width=size, hangs=True)
    right = _Box(node=second, x=width - size, y=below, width=size, hangs=True)
    for box in (top, left, right):
        _draw_box(canvas, box)
    _draw_level(canvas, site, left, right)
    _draw_elbow(canvas, site, top, left, "left", width)
    _draw_elbow(canvas, site, top, right, "right", width)


def _box_width(site: Site, most: int) -> int:
    wanted = [
        max(len(node.name) + len(_rank(node)), len(node.address) + len(node.interface)) + 6 for node in site.nodes
    ]
    return min(most, max(_LEAST_BOX, *wanted))


def _rank(node: Node) -> str:
    return "rank 0, head" if node.rank == 0 else f"rank {node.rank}"


def _draw_box(canvas: Canvas, box: _Box) -> None:
    canvas.box(box.x, box.y, box.width, _BOX_HEIGHT, "╭╮╯╰")
    row = box.y + (_BOX_HEIGHT - 3 if box.hangs else 1)
    space = box.width - 4
    rank = _rank(box.node)
    canvas.put(box.x + 2, row, fitted(box.node.name, space - len(rank) - 2), "strong")
    canvas.put(box.right - 1 - len(rank), row, rank)
    canvas.put(box.x + 2, row + 1, fitted(box.node.address, space))
    interface = fitted(box.node.interface, max(0, space - len(box.node.address) - 2))
    canvas.put(box.right - 1 - len(interface), row + 1, interface, "dim")


def _draw_side_cage(canvas: Canvas, box: _Box, side: Side, port: int, paths: int) -> None:
    """Draw a cage at the left or right edge of a machine; paths leave through its second and third row."""
    top = box.path_row - 1
    x = box.x if side == "left" else box.right - _CAGE + 1
    canvas.box(x, top, _CAGE, 4, "├┐┘├" if side == "left" else "┌┤┤└", "cage")
    canvas.put(x + 1, top + 1, " port ", "cage")
    canvas.put(x + 1, top + 2, f"  {port}   ", "cage")
    for index in range(paths):
        canvas.put(box.x if side == "left" else box.right, top + 1 + index, "┤" if side == "left" else "├", "cage")


def _draw_end_cage(canvas: Canvas, box: _Box, side: Side, port: int, paths: int) -> tuple[int, ...]:
    """Draw a cage at the top of a machine that hangs, or at the bottom of another; return the columns of its paths."""
    x = box.cage_x(side)
    edge = box.y if box.hangs else box.y + _BOX_HEIGHT - 1
    canvas.box(x, edge if box.hangs else edge - 2, _CAGE, 3, "┬┬┘└" if box.hangs else "┌┐┴┴", "cage")
    canvas.put(x + 1, edge + (1 if box.hangs else -1), f"port {port}", "cage")
    columns = (x + 2, x + 5)[:paths]
    # On the right, path 1 is the outer one too.
    columns = columns if side == "left" else tuple(2 * x + _CAGE - 1 - column for column in columns)
    for column in columns:
        canvas.put(column, edge, "┴" if box.hangs else "┬", "cage")
    return columns


def _draw_level(canvas: Canvas, site: Site, left: _Box, right: _Box) -> None:
    """Draw the cable between two machines beside each other."""
    cable = cable_of(site, left.node.rank, right.node.rank)
    if cable is None:
        return
    _draw_side_cage(canvas, left, "right", port_of(cable, left.node.rank), len(cable.paths))
    _draw_side_cage(canvas, right, "left", port_of(cable, right.node.rank), len(cable.paths))
    start, gap = left.right + 1, right.x - left.right - 1
    for row, (path, ink) in enumerate(zip(cable.paths, PATH_INKS, strict=False), left.path_row):
        canvas.across(start, right.x - 1, row, ink)
        here, there = ends_from(path, left.node.rank)
        _centre(canvas, start, gap, row, _path_label(path), ink)
        if len(_long_label(path, left.node.rank)) + 8 <= gap:
            canvas.put(start + 2, row, f" {here.address} ", ink)
            canvas.put(right.x - 4 - len(there.address), row, f" {there.address} ", ink)


def _draw_upright(canvas: Canvas, site: Site, upper: _Box, lower: _Box, side: Side, width: int) -> None:
    """Draw the cable between two machines above each other."""
    cable = cable_of(site, upper.node.rank, lower.node.rank)
    if cable is None:
        return
    _draw_end_cage(canvas, upper, side, port_of(cable, upper.node.rank), len(cable.paths))
    columns = _draw_end_cage(canvas, lower, side, port_of(cable, lower.node.rank), len(cable.paths))
    for column, ink in zip(columns, PATH_INKS, strict=False):
        canvas.down(column, upper.y + _BOX_HEIGHT, lower.y - 1, ink)
    _draw_labels(canvas, cable, upper.node.rank, columns, side, upper.y + _BOX_HEIGHT + 1, width)


def _draw_elbow(canvas: Canvas, site: Site, top: _Box, lower: _Box, side: Side, width: int) -> None:
    """Draw the cable from a side of the upper machine, round a corner, down to a lower one."""
    cable = cable_of(site, top.node.rank, lower.node.rank)
    if cable is None:
        return
    _draw_side_cage(canvas, top, side, port_of(cable, top.node.rank), len(cable.paths))
    columns = _draw_end_cage(canvas, lower, side, port_of(cable, lower.node.rank), len(cable.paths))
    for row, (column, ink) in enumerate(zip(columns, PATH_INKS, strict=False), top.path_row):
        if side == "left":
            canvas.across(column, top.x - 1, row, ink)
        else:
            canvas.across(top.right + 1, column, row, ink)
        canvas.put(column, row, "╭" if side == "left" else "╮", ink)
        canvas.down(column, row + 1, lower.y - 1, ink)
    _draw_labels(canvas, cable, top.node.rank, columns, side, lower.y - 3, width)


def _draw_labels(
    canvas: Canvas, cable: Cable, upper: int, columns: tuple[int, ...], side: Side, row: int, width: int
) -> None:
    """Write what upright paths are beside them, each on a row of its own, and mark each by its number."""
    inner = max(columns) + 3 if side == "left" else min(columns) - 2
    space = width // 2 - inner if side == "left" else inner - width // 2
    for y, (path, column, ink) in enumerate(zip(cable.paths, columns, PATH_INKS, strict=False), row):
        canvas.put(column, y, str(path.number), ink)
        here, there = ends_from(path, upper)
        label = _path_label(path)
        ends = f"  {here.address} to {there.address}"
        if len(label + ends) < space:
            label += ends
        canvas.put(inner if side == "left" else inner - len(label), y, label, ink)


def _path_label(path: Path) -> str:
    return f"{path.number} · {path.subnet}"


def _long_label(path: Path, rank: int) -> str:
    here, there = ends_from(path, rank)
    return f"{here.address}  {_path_label(path)}  {there.address}"


def _centre(canvas: Canvas, start: int, gap: int, row: int, label: str, ink: Ink) -> None:
    text = f" {fitted(label, gap - 4)} "
    canvas.put(start + (gap - len(text)) // 2, row, text, ink)
