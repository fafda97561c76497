# SPDX-License-Identifier: Apache-2.0
"""A release's facts: every realisation behind its images, their layers, its upstreams and kernels.

Core: no IO. The document is specified on docs/formats/release.md. It is a function of the release's content: no time,
no machine, no store is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from derive.canonical import CanonicalError, Digest, Json, decode, encode
from derive.derivations.model import Output, Platform, parse_output
from derive.images.documents import DocumentError, digest, exact, fields, integer, items, mapping, text, texts
from derive.releases.document import platform

TAG = "release-facts/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Realised:
    """A derivation that was built: its name, ``builder/version``, its outputs by name, and what it is built from.

    ``inputs`` are the ids of its inputs, sorted, each once; every table that has a derivation has those too.
    """

    name: str
    builder: str
    outputs: Mapping[str, Output]
    inputs: tuple[Digest, ...] = ()

    def document(self, places: Mapping[Digest, int]) -> dict[str, Json]:
        """Return it as it stands in a table; ``places`` are those of all derivations in the sorted list of ids."""
        outputs: dict[str, Json] = {name: str(output) for name, output in self.outputs.items()}
        inputs: list[Json] = [places[one] for one in self.inputs]
        return {"name": self.name, "builder": self.builder, "inputs": inputs, "outputs": outputs}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFact:
    """A layer of an image: the digest and size of its blob, and the digest of its uncompressed tar."""

    name: str
    digest: Digest
    size_bytes: int
    diff_id: Digest

    def document(self) -> dict[str, Json]:
        """Return it as it stands in the document."""
        written = {"digest": str(self.digest), "diff_id": str(self.diff_id)}
        return {"name": self.name, "size_bytes": self.size_bytes, **written}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """An image of a platform. ``derivations`` has its whole closure, fetches included, by derivation id."""

    config: Digest
    layers: tuple[LayerFact, ...]
    capabilities: tuple[str, ...]
    derivations: Mapping[Digest, Realised]

    def document(self) -> dict[str, Json]:
        """Return it as it stands in the document."""
        return {
            "config": str(self.config),
            "layers": [layer.document() for layer in self.layers],
            "capabilities": list(self.capabilities),
            "derivations": _realised(self.derivations),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamFact:
    """An upstream: the commit, the NAR hash of its tree, its series, the series' digest, and the patched tree."""

    name: str
    commit: str | None
    tree: Output
    series: tuple[str, ...]
    head: Digest | None
    patched: Output | None

    def document(self) -> dict[str, Json]:
        """Return it as it stands in the document."""
        return {
            "name": self.name,
            "commit": self.commit,
            "tree": str(self.tree),
            "series": list(self.series),
            "head": None if self.head is None else str(self.head),
            "patched": None if self.patched is None else str(self.patched),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """The engine's root of a platform: its derivation, and, where it was built, its output and all below it."""

    derivation: Digest
    output: Output | None
    derivations: Mapping[Digest, Realised]

    def document(self) -> dict[str, Json]:
        """Return it as it stands in the document."""
        return {
            "derivation": self.derivation.hex,
            "output": None if self.output is None else str(self.output),
            "derivations": _realised(self.derivations),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of the release of this digest; ``kernels`` are the rows of the image's kernel table."""

    release: Digest
    images: Mapping[Platform, ImageFacts]
    upstreams: tuple[UpstreamFact, ...]
    kernels: tuple[Mapping[str, Json], ...]
    engine: Mapping[Platform, EngineFacts]

    def document(self) -> dict[str, Json]:
        """Return the canonical document."""
        return {
            "derive": TAG,
            "release": str(self.release),
            "images": {name: one.document() for name, one in self.images.items()},
            "upstreams": [one.document() for one in self.upstreams],
            "kernels": list(self.kernels),
            "engine": {name: one.document() for name, one in self.engine.items()},
        }

    def encoded(self) -> bytes:
        """Return the canonical bytes: what ``facts.json`` holds."""
        return encode(self.document())


def read_facts(data: bytes) -> Facts:
    """Read ``facts.json``; raises DocumentError (a ValueError) naming the key, also where bytes are not canonical."""
    keys = ("release", "images", "upstreams", "kernels", "engine")
    try:
        found = fields(decode(data), tag=TAG, keys=keys)
    except CanonicalError as error:
        raise DocumentError(str(error)) from error
    facts = Facts(
        release=digest(found, "release"),
        images={platform(key): _image(one) for key, one in mapping(found["images"], "images").items()},
        upstreams=tuple(_upstream(one) for one in items(found, "upstreams")),
        kernels=tuple(mapping(one, "kernels") for one in items(found, "kernels")),
        engine={platform(key): _engine(one) for key, one in mapping(found["engine"], "engine").items()},
    )
    if facts.encoded() != data:
        raise DocumentError("not the canonical bytes of these facts")
    return facts


def _realised(derivations: Mapping[Digest, Realised]) -> dict[str, Json]:
    places = {key: place for place, key in enumerate(sorted(derivations))}
    return {key.hex: one.document(places) for key, one in derivations.items()}


def _image(value: Json) -> ImageFacts:
    found = exact(value, keys=("config", "layers", "capabilities", "derivations"), what="images")
    return ImageFacts(
        config=digest(found, "config"),
        layers=tuple(_layer(one) for one in items(found, "layers")),
        capabilities=texts(found, "capabilities"),
        derivations=_derivations(found),
    )


def _layer(value: Json) -> LayerFact:
    found = exact(value, keys=("name", "digest", "size_bytes", "diff_id"), what="layers")
    size = integer(found, "size_bytes")
    return LayerFact(
        name=text(found, "name"), digest=digest(found, "digest"), size_bytes=size, diff_id=digest(found, "diff_id")
    )


def _upstream(value: Json) -> UpstreamFact:
    keys = ("name", "commit", "tree", "series", "head", "patched")
    found = exact(value, keys=keys, what="upstreams")
    return UpstreamFact(
        name=text(found, "name"),
        commit=None if found["commit"] is None else text(found, "commit"),
        tree=parse_output(text(found, "tree")),
        series=texts(found, "series"),
        head=None if found["head"] is None else digest(found, "head"),
        patched=None if found["patched"] is None else parse_output(text(found, "patched")),
    )


def _engine(value: Json) -> EngineFacts:
    found = exact(value, keys=("derivation", "output", "derivations"), what="engine")
    output = None if found["output"] is None else parse_output(text(found, "output"))
    return EngineFacts(derivation=Digest(text(found, "derivation")), output=output, derivations=_derivations(found))


def _derivations(found: Mapping[str, Json]) -> dict[Digest, Realised]:
    rows = mapping(found["derivations"], "derivations")
    ids = sorted(Digest(key) for key in rows)
    read = {one: _one(rows[one.hex], ids) for one in ids}
    try:
        TopologicalSorter({key: one.inputs for key, one in read.items()}).prepare()
    except CycleError as error:
        names = " -> ".join(read[one].name for one in error.args[1])
        raise DocumentError(f"derivations: built from each other: {names}") from None
    return read


def _one(value: Json, ids: Sequence[Digest]) -> Realised:
    found = exact(value, keys=("name", "builder", "inputs", "outputs"), what="derivations")
    name, outputs = text(found, "name"), mapping(found["outputs"], "outputs")
    return Realised(
        name=name,
        builder=text(found, "builder"),
        outputs={key: parse_output(str(output)) for key, output in outputs.items()},
        inputs=tuple(ids[place] for place in _places(items(found, "inputs"), len(ids), name)),
    )


def _places(values: Sequence[Json], count: int, name: str) -> list[int]:
    """Return the places of a derivation's inputs among so many; raises DocumentError for what are none."""
    found: list[int] = []
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
            raise DocumentError(f"inputs of {name}: no place among {count} derivations: {value!r}")
        if found and value <= found[-1]:
            raise DocumentError(f"inputs of {name}: not sorted, or given twice: {value}")
        found.append(value)
    return found
