# SPDX-License-Identifier: Apache-2.0
"""From a resolved shape, a site or a rendered folder's documents to a side of a comparison.

Core: no IO.

Which image runs is not what is compared: of every image its name stands in the place of its digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from derive.canonical import Digest, Json, decode, sha256
from derive.fabric.abstract import abstract_site
from derive.fabric.environment import node_settings
from derive.fabric.site import Site
from derive.fabric.transports import Fabric
from derive.recipes.resolved import Resolved
from derive.recipes.values import plain_text
from derive.render.bundle import MANIFEST, Bundle, bundle
from derive.render.judgement import Judgement
from derive.render.launch import Launch
from derive.render.plan import launches
from derive.shapes.facts import shape_facts, site_facts
from derive.shapes.model import Section, Side, Source, Told, Value, Values
from derive.shapes.told import Known, told

_NO_FACTS = {"derive", "nodes", "files", "launch-bundle", "model", "site"}
"""Keys of a manifest that say what its files are, and those that are told in other words."""


def shape_side(resolved: Resolved, fabric: Fabric) -> Side:
    """Return what a shape tells the nodes of no place."""
    site = abstract_site(resolved.cabling)
    image = _stand_in(resolved.image)
    plans = launches(resolved, site, image, fabric)
    rows = [told(one, {}, _known(resolved, site, "site", fabric, one.rank)) for one in plans]
    named = tuple(_without_digest(row, image, resolved.image) for row in rows)
    return Side(title=f"{resolved.recipe}/{resolved.shape}", facts={"shape": shape_facts(resolved)}, told=named)


def site_side(resolved: Resolved, site: Site, site_file: str, fabric: Fabric, files: Mapping[str, bytes]) -> Side:
    """Return what a shape tells the nodes of a site, with the site itself and every file."""
    image = _stand_in(resolved.image)
    found = bundle(resolved, site, image, fabric, files, Judgement())
    side = rendered_side(found, site_file, fabric, f"{site.name} with {resolved.recipe}/{resolved.shape}")
    return replace(side, told=tuple(_without_digest(row, image, resolved.image) for row in side.told))


def rendered_side(found: Bundle, site_file: str, fabric: Fabric, title: str) -> Side:
    """Return what a rendered bundle tells its nodes; everything in it knows where it comes from."""
    facts: dict[Section, Values] = {
        "shape": shape_facts(found.resolved),
        "site": site_facts(found.site, site_file),
    }
    rows = [
        told(one, _own_files(found, one.node), _known(found.resolved, found.site, site_file, fabric, one.rank))
        for one in found.launches
    ]
    return Side(title=title, facts=facts, told=tuple(rows))


def folder_side(
    manifest: Mapping[str, Json], plans: Mapping[str, Launch], files: Mapping[str, Mapping[str, bytes]], title: str
) -> Side:
    """Return what a rendered folder tells its nodes, by their names; nothing of it knows where it comes from."""
    rows = [told(launch, files[node], Known()) for node, launch in plans.items()]
    return Side(title=title, facts=_manifest_facts(manifest), told=tuple(sorted(rows, key=lambda row: row.rank)))


def as_folder(side: Side, found: Bundle) -> Side:
    """Return a rendered side with the facts that a folder has too, to be compared with one."""
    manifest = decode(found.files[MANIFEST])
    assert isinstance(manifest, Mapping)
    file = f"recipes/{found.resolved.recipe}.toml"
    shape_bundle = (f"{file}: shapes.{found.resolved.shape}", "image", "render")
    known = {key: value.sources for key, value in side.facts.get("shape", {}).items()}
    known["shape-bundle"] = tuple(Source(file=place, key="", said="") for place in shape_bundle)
    site = next(iter(side.facts["site"].values())).sources
    facts: dict[Section, Values] = {}
    for section, values in _manifest_facts(manifest).items():
        sources = {key: tuple(replace(one, key="", said="") for one in site) for key in values}
        sources = sources if section == "site" else known
        facts[section] = {key: replace(value, sources=sources.get(key, ())) for key, value in values.items()}
    return replace(side, facts=facts)


def _manifest_facts(manifest: Mapping[str, Json]) -> dict[Section, Values]:
    """Return what a manifest says beside its files: what they follow from, and what stands against a deploy."""
    shape: dict[str, Value] = {}
    for key, value in manifest.items():
        rows = {f"{key}.{inner}": one for inner, one in value.items()} if isinstance(value, Mapping) else {key: value}
        if key not in _NO_FACTS:
            shape |= {name: _as_value(one) for name, one in rows.items() if one is not None and one != []}
    model, site = manifest.get("model"), manifest.get("site")
    if isinstance(model, Mapping):
        shape["model"] = Value(text=f"{model.get('repository')} {model.get('revision') or 'unpinned'}")
    if not isinstance(site, Mapping):
        return {"shape": shape}
    return {"shape": shape, "site": {key: _as_value(one) for key, one in site.items()}}


def _as_value(value: Json) -> Value:
    return Value(text=str(value).lower() if isinstance(value, bool) else plain_text(value))


def _known(resolved: Resolved, site: Site, site_file: str, fabric: Fabric, rank: int) -> Known:
    settings = node_settings(resolved, site, rank, fabric, site_file)
    return Known(resolved=resolved, site=site, site_file=site_file, settings=settings)


def _stand_in(image: str) -> Digest:
    return sha256(f"image:{image}".encode())


def _without_digest(row: Told, digest: Digest, image: str) -> Told:
    def named(text: str) -> str:
        return text.replace(str(digest), f"${{image:{image}}}").replace(digest.short, f"${{image:{image}}}")

    def value(one: Value) -> Value:
        sources = tuple(replace(source, said=named(source.said)) for source in one.sources)
        return Value(text=named(one.text), sources=sources)

    sections: dict[Section, Values] = {
        section: {key: value(one) for key, one in values.items()} for section, values in row.sections.items()
    }
    return replace(row, sections=sections)


def _own_files(found: Bundle, node: str) -> dict[str, bytes]:
    """Return a node's files; its manifest says the same of all of them, and is no fact of its own."""
    return {path: data for path, data in found.node(node).items() if path != MANIFEST}
