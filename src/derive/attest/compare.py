# SPDX-License-Identifier: Apache-2.0
"""Where what is said of an image differs from what is known of it here.

Core: no IO.

Compared is what an image is and came from: artifacts, steps, outputs, patches. Not compared is what may differ between
two who are both right: the engine, the digests of a project's content and locks, licences as a lock has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from derive.attest.statement import PROVENANCE_TYPE, SBOM_TYPE
from derive.canonical import Json, encode

_COMPARED = ("type", "name", "version", "purl", "hashes", "properties", "pedigree")
_UNREADABLE = "it is not of the form that is written here"


def differences(kind: str, known: Mapping[str, Json], said: Mapping[str, Json]) -> tuple[str, ...]:
    """Return what differs in two predicates of one type, a line for each difference; nothing where they agree."""
    compare = _COMPARE.get(kind)
    if compare is None or encode(known) == encode(said):
        return ()
    try:
        return tuple(compare(known, said))
    except (KeyError, TypeError, AttributeError, IndexError):
        return (_UNREADABLE,)


def _provenance(known: Mapping[str, Json], said: Mapping[str, Json]) -> Iterator[str]:
    before, after = _mapping(known["buildDefinition"]), _mapping(said["buildDefinition"])
    for key in ("image", "platform"):
        yield from _differ(key, *(_mapping(one["externalParameters"]).get(key) for one in (before, after)))
    yield from _differ("build type", before["buildType"], after["buildType"])
    yield from _differ("derivation", *(_mapping(one["internalParameters"])["derivation"] for one in (before, after)))
    yield from _tables("artifact", *(_artifacts(one) for one in (before, after)))
    yield from _tables("step", *_both_known(*(_steps(_mapping(one["runDetails"])) for one in (known, said))))


def _artifacts(definition: Mapping[str, Json]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for item in map(_mapping, _items(definition["resolvedDependencies"])):
        digests = _mapping(item["digest"])
        key = digests.get("sha256", digests.get("narSha256"))
        found[f"{item.get('name', key)} {key}"] = digests
    return found


def _steps(details: Mapping[str, Json]) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for item in map(_mapping, _items(details["byproducts"])):
        notes = _mapping(item["annotations"])
        gave = [item["uri"], notes["outputs"]] if "outputs" in notes else []
        found[f"{item['name']} {notes['derivation']}"] = [notes["builder"], *gave]
    return found


def _both_known(known: Mapping[str, list[Json]], said: Mapping[str, list[Json]]) -> Iterator[dict[str, Json]]:
    """Yield the two tables without what a step gave where one of them does not say it: it was not run there."""
    for one, other in ((known, said), (said, known)):
        yield {key: step if len(other.get(key, step)) > 1 else step[:1] for key, step in one.items()}


def _sbom(known: Mapping[str, Json], said: Mapping[str, Json]) -> Iterator[str]:
    images = [_mapping(_mapping(one["metadata"])["component"]) for one in (known, said)]
    yield from _differ("image", *(_component(one) for one in images))
    yield from _tables("component", *(_components(one) for one in (known, said)))
    yield from _tables("dependencies of", *(_dependencies(one) for one in (known, said)))


def _components(bill: Mapping[str, Json]) -> dict[str, Json]:
    return {str(item["bom-ref"]): _component(item) for item in map(_mapping, _items(bill["components"]))}


def _component(item: Mapping[str, Json]) -> Json:
    return {key: item[key] for key in _COMPARED if key in item}


def _dependencies(bill: Mapping[str, Json]) -> dict[str, Json]:
    return {str(item["ref"]): item.get("dependsOn") for item in map(_mapping, _items(bill["dependencies"]))}


def _tables(what: str, known: Mapping[str, Json], said: Mapping[str, Json]) -> Iterator[str]:
    for key in sorted(known.keys() | said.keys()):
        if key not in said:
            yield f"{what} {key}: not named"
        elif key not in known:
            yield f"{what} {key}: named, and no part of it"
        else:
            yield from _differ(f"{what} {key}", known[key], said[key])


def _differ(what: str, known: Json, said: Json) -> Iterator[str]:
    if encode(known) != encode(said):
        yield f"{what}: expected {_shown(known)}, says {_shown(said)}"


def _shown(value: Json) -> str:
    return encode(value).decode("utf-8", "replace")


def _mapping(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        raise TypeError("not an object")
    return value


def _items(value: Json) -> Sequence[Json]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError("not a list")
    return value


_COMPARE: Mapping[str, Callable[[Mapping[str, Json], Mapping[str, Json]], Iterator[str]]] = {
    PROVENANCE_TYPE: _provenance,
    SBOM_TYPE: _sbom,
}
