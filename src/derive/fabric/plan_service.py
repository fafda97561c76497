# SPDX-License-Identifier: Apache-2.0
"""Plan what was asked for: read recipe, fabric, measured figures and site, and pick the cabling that is meant.

Edge: the project's files, the site's file, the environment that it is given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from derive.errors import InputErrors, expected_got
from derive.fabric.catalogue import load_fabric
from derive.fabric.examples import example, example_file, example_note
from derive.fabric.places import Found, site_or_example
from derive.fabric.plan_measured import Measured, absent, load_measured
from derive.fabric.plan_model import Plan, plan
from derive.fabric.plan_traffic import Traffic, traffic
from derive.fabric.site import Cabling
from derive.fabric.transports import Fabric
from derive.project import default_image, load_launching
from derive.recipes.resolved import Resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person named; None where the usual is meant. A transport without recipe and shape is planned for none."""

    recipe: str | None = None
    shape: str | None = None
    transport: str | None = None
    cabling: Cabling | None = None
    size: int | None = None
    site: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, why its transport cannot be launched yet, and what a person is to know besides."""

    plan: Plan
    planned: str | None
    notes: tuple[str, ...]


def make_plan(root: Path, asked: Asked, environ: Mapping[str, str]) -> Planned:
    """Plan; the recipe that is meant where none is named has the name of the default image.

    Raises:
        InputErrors: what is wrong with recipe, fabric, figures or site, or why the transport cannot be there.
    """
    files = load_launching(root)
    fabric, measured = load_fabric(files), load_measured(files)
    resolved = None
    if asked.transport is None or asked.recipe is not None or asked.shape is not None:
        resolved = _resolved(files, asked.recipe or default_image(root), asked.shape)
    name = asked.transport or (resolved.transport if resolved is not None else "")
    _require_collectives(name, resolved if asked.transport is None else None, fabric, measured)
    wanted = asked.cabling or (resolved.cabling if resolved is not None else None)
    cablings = fabric.transports[name].cablings if name in fabric.transports else ()
    found = _site(asked, environ, files, wanted, cablings)
    steps: tuple[Traffic, ...] = () if resolved is None else traffic(resolved.arguments, measured.model)
    return Planned(
        plan=plan(measured, found.site, name, size=asked.size, steps=steps),
        planned=fabric.transports[name].planned if name in fabric.transports else None,
        notes=() if found.note is None else (found.note,),
    )


def _resolved(files: Mapping[str, bytes], recipe: str, shape: str | None) -> Resolved:
    from derive.recipes.load import load_recipe
    from derive.recipes.resolve import resolve

    return resolve(load_recipe(files, recipe), shape)


def _require_collectives(name: str, resolved: Resolved | None, fabric: Fabric, measured: Measured) -> None:
    """Refuse a transport that nothing is known of, and one that moves nothing."""
    if name in measured.transports:
        return
    where = "--transport" if resolved is None else f"recipes/{resolved.recipe}.toml: shapes.{resolved.shape}"
    if name in fabric.transports:
        message = f"transport {name!r} moves nothing that could be planned"
        detail = (f"it is  {fabric.transports[name].doc}",)
        hint = f"name another: --transport {min(measured.transports)}"
        raise InputErrors.one(message, where=where, detail=detail, hint=hint)
    raise InputErrors([absent(where, name, measured.transports, "transport")])


def _site(
    asked: Asked,
    environ: Mapping[str, str],
    files: Mapping[str, bytes],
    wanted: Cabling | None,
    cablings: Collection[Cabling],
) -> Found:
    """Return the site; where it is of another cabling than the one that is meant, the example of that one.

    Where none is meant, it is any of the transport's ``cablings``.
    """
    usual: Cabling = wanted or ("ring4" if "ring4" in cablings else "triangle")
    found = site_or_example(environ, asked.site, files, usual)
    fits = found.site.cabling == wanted if wanted is not None else found.site.cabling in cablings
    if fits or (wanted is None and (asked.site is not None or not cablings)):
        return found
    if asked.site is not None:
        detail = expected_got(usual, found.site.cabling)
        raise InputErrors.one("a site of another cabling", where=f"{found.file}: cabling", detail=detail)
    file = example_file(usual)
    note = example_note(file, f"the site is a {found.site.cabling}")
    return Found(site=example(files, usual), file=file, note=note)
