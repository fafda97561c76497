# SPDX-License-Identifier: Apache-2.0
"""The file of measured figures, as typed values: rates of links, series of times, what transports are estimated by.

Core: no IO. Imports pydantic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from derive.content import Keyed, Some, parse_model, parse_toml
from derive.errors import InputErrors, Problem
from derive.fabric.abstract import abstract_site
from derive.fabric.collectives import ALGORITHMS, Algorithm, Collective
from derive.fabric.plan_count import ELEMENT_BYTES
from derive.fabric.plan_links import Rates
from derive.fabric.plan_possible import why_not
from derive.fabric.site import Cabling
from derive.words import near

FILE = "fabric/measured.toml"

_Positive = Annotated[int, Field(ge=1)]


class LinkDecl(Keyed):
    """What a kind of link carries one way, and where that is from."""

    bytes_per_second: _Positive
    source: str


class LinksDecl(Keyed):
    """Both kinds of links."""

    cable: LinkDecl
    root: LinkDecl


class Point(Keyed):
    """One measured time."""

    bytes: Annotated[int, Field(ge=ELEMENT_BYTES, multiple_of=ELEMENT_BYTES)]
    time_ns: _Positive


class Series(Keyed):
    """Times of one collective by one algorithm, by size. ``note`` says what they do not tell."""

    title: str
    collective: Collective
    cabling: Cabling
    algorithm: Algorithm
    source: str
    note: str | None = None
    latency_of: str | None = None
    points: Annotated[tuple[Point, ...], Some]


class TransportDecl(Keyed):
    """How a transport does collectives; larger ones than ``limit_bytes`` go by the transport ``beyond``."""

    algorithm: Algorithm
    series: str
    limit_bytes: _Positive | None = None
    beyond: str | None = None


class ModelDecl(Keyed):
    """What decides the all-reduces of a step: numbers in a row, layers, and how many in each."""

    row_numbers: _Positive
    layers: _Positive
    all_reduces_per_layer: _Positive


class Measured(Keyed):
    """The whole file."""

    format: Literal[1]
    links: LinksDecl
    series: dict[str, Series]
    transports: dict[str, TransportDecl]
    algorithms: dict[Algorithm, str]
    model: ModelDecl

    @property
    def rates(self) -> Rates:
        """Return what links carry."""
        return Rates(cable=self.links.cable.bytes_per_second, root=self.links.root.bytes_per_second)


def load_measured(files: Mapping[str, bytes]) -> Measured:
    """Return the measured figures of a project.

    Raises:
        InputErrors: when the file is not there, or for everything that is wrong in it.
    """
    if FILE not in files:
        raise InputErrors.one("no such file", where=FILE, hint="without measured figures there is nothing to plan by")
    table, problems = parse_toml(files[FILE], FILE)
    if table is not None:
        measured, problems = parse_model(Measured, table, FILE)
        if measured is not None:
            problems = list(_disagreements(measured))
            if not problems:
                return measured
    raise InputErrors(problems)


def _disagreements(measured: Measured) -> Iterator[Problem]:
    for name, series in measured.series.items():
        yield from _points_problems(f"{FILE}: series.{name}", series)
        if series.latency_of is not None:
            yield from _absent(f"series.{name}.latency-of", series.latency_of, measured.series, "series")
            other = measured.series.get(series.latency_of)
            if other is not None and other.latency_of is not None:
                message = f"{series.latency_of!r} has no latency of its own"
                yield Problem(where=f"{FILE}: series.{name}.latency-of", message=message)
    for name, transport in measured.transports.items():
        yield from _absent(f"transports.{name}.series", transport.series, measured.series, "series")
        if (transport.limit_bytes is None) != (transport.beyond is None):
            message = "give limit-bytes and beyond together, or neither"
            yield Problem(where=f"{FILE}: transports.{name}", message=message)
        if transport.beyond is not None:
            yield from _absent(f"transports.{name}.beyond", transport.beyond, measured.transports, "transport")
            other_transport = measured.transports.get(transport.beyond)
            if other_transport is not None and other_transport.beyond is not None:
                message = f"{transport.beyond!r} has a limit of its own"
                yield Problem(where=f"{FILE}: transports.{name}.beyond", message=message)
    for missing in sorted(set(ALGORITHMS) - set(measured.algorithms)):
        yield Problem(where=f"{FILE}: algorithms.{missing}", message="this key is missing")
    for algorithm, series_name in measured.algorithms.items():
        yield from _absent(f"algorithms.{algorithm}", series_name, measured.series, "series")


def _points_problems(where: str, series: Series) -> Iterator[Problem]:
    if why_not(series.algorithm, abstract_site(series.cabling)) is not None:
        message = f"a {series.cabling} does not carry {series.algorithm}"
        yield Problem(where=f"{where}.algorithm", message=message)
    sizes = [point.bytes for point in series.points]
    if sizes != sorted(set(sizes)):
        yield Problem(where=f"{where}.points", message="the sizes do not rise from point to point")
    if len(sizes) < 2 and series.latency_of is None:
        yield Problem(where=f"{where}.points", message="one point cannot tell latency from rate", hint="add latency-of")


def _absent(key: str, name: str, known: Collection[str], what: str) -> Iterator[Problem]:
    if name not in known:
        yield absent(f"{FILE}: {key}", name, known, what)


def absent(where: str, name: str, known: Collection[str], what: str) -> Problem:
    """Return the problem of a name that nothing has, with the nearest that something has, or else all of them."""
    hint = near(name, known) or f"there are: {', '.join(sorted(known))}"
    return Problem(where=where, message=f"no {what} is named {name!r}", hint=hint)
