# SPDX-License-Identifier: Apache-2.0
"""The sites of the project's examples, and others made from them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from derive.fabric.examples import example
from derive.fabric.site import Cabling, Site
from derive.project import load_launching
from support.cli import CHECKOUT


@cache
def launching() -> dict[str, bytes]:
    """Return the project's files that launch files are made from."""
    return load_launching(CHECKOUT)


@cache
def example_site(cabling: Cabling) -> Site:
    """Return the example of a cabling."""
    return example(launching(), cabling)


def with_one_path(site: Site) -> Site:
    """Return a site whose cables have their first path alone."""
    return replace(site, cables=tuple(replace(cable, paths=cable.paths[:1]) for cable in site.cables))


def without_cable(site: Site, index: int) -> Site:
    """Return a site that lacks a cable."""
    return replace(site, cables=(*site.cables[:index], *site.cables[index + 1 :]))
