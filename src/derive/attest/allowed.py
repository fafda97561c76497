# SPDX-License-Identifier: Apache-2.0
"""What two may say differently who are both right: it is taken over from what is said, where it has its form there.

Core: no IO. The fields are named on docs/formats/provenance.md; everything else has to be as it is known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from derive.attest.statement import PROVENANCE_TYPE, SBOM_TYPE
from derive.canonical import Json
from derive.derivations.model import parse_output

_ENGINE = re.compile(r"urn:derive:engine:[0-9a-f]{64}")
_RESOLVED = re.compile(r"urn:derive:resolved:[0-9a-f]{64}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HASHES = ("sha256", "narSha256")
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,64}")


def expected(kind: str, known: Mapping[str, Json], said: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return what a predicate has to be, given what is known and the freedom that who said it has."""
    adapt = _ADAPT.get(kind)
    return known if adapt is None else adapt(known, said)


def _provenance(known: Mapping[str, Json], said: Mapping[str, Json]) -> Mapping[str, Json]:
    definition, details = (_table(known[key]) for key in ("buildDefinition", "runDetails"))
    there, ran = (_table(said.get(key)) for key in ("buildDefinition", "runDetails"))
    artifacts = list(_artifacts(definition["resolvedDependencies"], there.get("resolvedDependencies")))
    steps = list(_steps(details["byproducts"], ran.get("byproducts")))
    builders = {str(_table(one.get("annotations")).get("builder", "")) for one in (*artifacts, *steps)}
    return {
        "buildDefinition": {
            **definition,
            "externalParameters": _asked(_table(definition["externalParameters"]), there.get("externalParameters")),
            "internalParameters": {
                **_table(definition["internalParameters"]),
                "builders": sorted(builders - {""}),
            },
            "resolvedDependencies": artifacts,
        },
        "runDetails": {
            **details,
            "builder": _builder(_table(details["builder"]), _table(ran.get("builder"))),
            "byproducts": steps,
        },
    }


def _asked(known: Mapping[str, Json], said: Json) -> dict[str, Json]:
    """Digests of content and locks: a name means what a project makes of it, and no two projects need be the same."""
    there = _table(said)
    found = {key: value for key, value in known.items() if key not in ("content", "locks")}
    if _fits(_DIGEST, there.get("content")):
        found["content"] = there["content"]
    locks = there.get("locks")
    if isinstance(locks, Mapping) and all(_fits(_DIGEST, one) for one in locks.values()):
        found["locks"] = locks
    return found


def _builder(known: Mapping[str, Json], said: Mapping[str, Json]) -> Mapping[str, Json]:
    return {**known, "id": said["id"]} if _fits(_ENGINE, said.get("id")) else known


def _artifacts(known: Json, said: Json) -> Iterator[Mapping[str, Json]]:
    """Yield artifacts; one of which only one of the two knows what fetched it is as who knows it says."""
    there = {_hash(one): one for one in _rows(said)}
    for one in _rows(known):
        other = there.get(_hash(one), one)
        bare = {"digest": {key: value for key, value in _table(one["digest"]).items() if key in _HASHES}}
        if "uri" in one:
            yield bare if other == bare else one
        else:
            yield other if _is_named(other) else one


def _is_named(artifact: Mapping[str, Json]) -> bool:
    """Say whether an artifact is as one is written whose fetch is known."""
    notes, digests = _table(artifact.get("annotations")), _table(artifact.get("digest"))
    texts = [artifact.get("name"), artifact.get("uri"), notes.get("builder"), *notes.values(), *digests.values()]
    return (
        artifact.keys() == {"name", "uri", "digest", "annotations"}
        and notes.keys() <= {"builder", "locator"}
        and digests.keys() <= {*_HASHES, "gitCommit", "gitTree"}
        and all(isinstance(one, str) for one in texts)
    )


def _hash(artifact: Mapping[str, Json]) -> str:
    digests = _table(artifact.get("digest"))
    return str(digests.get("sha256", digests.get("narSha256")))


def _steps(known: Json, said: Json) -> Iterator[Mapping[str, Json]]:
    """Yield steps; what one gave that was run in only one of the two places is as it is said."""
    there = {str(_table(one.get("annotations")).get("derivation")): one for one in _rows(said)}
    for one in _rows(known):
        notes = _table(one["annotations"])
        other = there.get(str(notes["derivation"]), one)
        gave = _table(other.get("annotations")).get("outputs")
        if ("outputs" in notes) == (gave is not None):
            yield one
        elif gave is None:
            bare: dict[str, Json] = {key: value for key, value in notes.items() if key != "outputs"}
            yield {**one, "uri": f"urn:derive:derivation:{notes['derivation']}", "annotations": bare}
        elif _fits(_RESOLVED, other.get("uri")) and _are_outputs(gave):
            yield {**one, "uri": other["uri"], "annotations": {**notes, "outputs": gave}}
        else:
            yield one


def _are_outputs(value: Json) -> bool:
    if not isinstance(value, Mapping):
        return False
    try:
        for one in value.values():
            parse_output(str(one))
    except ValueError:
        return False
    return True


def _bill(known: Mapping[str, Json], said: Mapping[str, Json]) -> Mapping[str, Json]:
    there = {str(one.get("bom-ref")): one for one in _rows(said.get("components"))}
    components = [_component(one, there.get(str(one["bom-ref"]))) for one in _rows(known["components"])]
    metadata = _table(known["metadata"])
    tools = _table(metadata["tools"])
    said_tools = _rows(_table(_table(said.get("metadata")).get("tools")).get("components"))
    return {
        **known,
        "metadata": {**metadata, "tools": {**tools, "components": _tools(_rows(tools["components"]), said_tools)}},
        "components": components,
    }


def _tools(known: Sequence[Mapping[str, Json]], said: Sequence[Mapping[str, Json]]) -> list[Mapping[str, Json]]:
    """Return the tools in the versions that are said: the engine's own version follows the engine."""
    versions = {str(one.get("bom-ref")): one.get("version") for one in said}
    found = []
    for one in known:
        version = versions.get(str(one["bom-ref"]))
        found.append({**one, "version": version} if _fits(_VERSION, version) else one)
    return found


def _component(known: Mapping[str, Json], said: Mapping[str, Json] | None) -> Mapping[str, Json]:
    """Return a component with the licences that are said of it, and of what it was made from."""
    if said is None:
        return known
    found = {key: value for key, value in known.items() if key != "licenses"}
    licences = said.get("licenses")
    if licences is not None:
        found["licenses"] = licences if _are_licences(licences) else known.get("licenses")
    pedigree = _table(known.get("pedigree"))
    if "ancestors" in pedigree:
        before = {str(one.get("bom-ref")): one for one in _rows(_table(said.get("pedigree")).get("ancestors"))}
        made_from = [_component(one, before.get(str(one["bom-ref"]))) for one in _rows(pedigree["ancestors"])]
        found["pedigree"] = {**pedigree, "ancestors": made_from}
    return found


def _are_licences(value: Json) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_licence, value))


def _is_licence(value: Json) -> bool:
    if not isinstance(value, Mapping) or len(value) != 1:
        return False
    inner = value.get("license")
    if isinstance(inner, Mapping) and len(inner) == 1:
        return isinstance(inner.get("id", inner.get("name")), str)
    return isinstance(value.get("expression"), str)


def _fits(pattern: re.Pattern[str], value: Json) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _table(value: Json) -> Mapping[str, Json]:
    """Return an object; of what is none, nothing is taken over."""
    return value if isinstance(value, Mapping) else {}


def _rows(value: Json) -> Sequence[Mapping[str, Json]]:
    """Return the objects of a list; of what is none, nothing is taken over."""
    found = () if isinstance(value, str) or not isinstance(value, Sequence) else value
    return [one for one in found if isinstance(one, Mapping)]


_ADAPT: Mapping[str, Callable[[Mapping[str, Json], Mapping[str, Json]], Mapping[str, Json]]] = {
    PROVENANCE_TYPE: _provenance,
    SBOM_TYPE: _bill,
}
