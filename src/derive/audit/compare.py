# SPDX-License-Identifier: Apache-2.0
"""A release as recorded and as derived again: what both say, derivation by derivation, and which differs first.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from derive.canonical import Digest, Json
from derive.derivations.model import Output, Platform
from derive.errors import InputErrors, expected_got
from derive.releases.document import Release
from derive.releases.facts import Facts, Realised

Inputs = Mapping[Digest, Sequence[Digest]]
"""The derivations that each derivation is built from, for all that differ and everything below them."""

_ABSENT = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A derivation that both have, and whose outputs differ. ``builder`` is ``name/version``."""

    platform: Platform
    derivation: Digest
    name: str
    builder: str
    recorded: Mapping[str, Output]
    got: Mapping[str, Output]

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {
            "platform": self.platform,
            "derivation": self.derivation.hex,
            "name": self.name,
            "builder": self.builder,
            "recorded": {name: str(one) for name, one in sorted(self.recorded.items())},
            "got": {name: str(one) for name, one in sorted(self.got.items())},
        }


@dataclass(frozen=True, slots=True)
class Row:
    """A value of a document that differs: its key path, and what stands there in each; ``nothing`` where nothing."""

    place: str
    recorded: str
    got: str

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {"place": self.place, "recorded": self.recorded, "got": self.got}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What was compared, and everything that differs.

    ``derivations`` and ``outputs`` count what both have, each derivation once for each platform. ``rows`` are of the
    release's document and of its facts, but for the outputs of derivations, which are ``moved``. ``absent`` and
    ``added`` name derivations that only one of the two has.
    """

    platforms: tuple[Platform, ...]
    derivations: int
    outputs: int
    moved: tuple[Moved, ...] = ()
    absent: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()

    @property
    def same(self) -> bool:
        """Say whether nothing differs."""
        return not (self.moved or self.absent or self.added or self.rows)


def chosen_platforms(recorded: Release, wanted: Sequence[Platform]) -> tuple[Platform, ...]:
    """Return the platforms to audit, all of the release where none is wanted; raises InputErrors for others."""
    known = tuple(sorted(recorded.images))
    odd = [one for one in wanted if one not in known]
    if odd:
        detail = expected_got(" or ".join(known), ", ".join(odd))
        raise InputErrors.one("the release has no image for it", where="--platform", detail=detail)
    return tuple(sorted(set(wanted))) or known


def compare(recorded: tuple[Release, Facts], got: tuple[Release, Facts], platforms: Sequence[Platform]) -> Compared:
    """Compare two descriptions of one release, as far as some platforms go."""
    moved: list[Moved] = []
    absent: list[str] = []
    added: list[str] = []
    rows: list[Row] = []
    count = outputs = 0
    for platform in platforms:
        old = recorded[1].images[platform].derivations
        new = got[1].images[platform].derivations if platform in got[1].images else {}
        absent += [_named(platform, key, old[key]) for key in sorted(old.keys() - new.keys())]
        added += [_named(platform, key, new[key]) for key in sorted(new.keys() - old.keys())]
        for key in sorted(old.keys() & new.keys()):
            count += 1
            outputs += len(old[key].outputs)
            if old[key].outputs != new[key].outputs:
                moved.append(_moved(platform, key, old[key], new[key]))
            rows += _otherwise(platform, key, old[key], new[key])
    documents = [_documents(release, facts, platforms, got[0]) for release, facts in (recorded, got)]
    return Compared(
        platforms=tuple(platforms),
        derivations=count,
        outputs=outputs,
        moved=tuple(moved),
        absent=tuple(absent),
        added=tuple(added),
        rows=(*_rows("", documents[0], documents[1]), *rows),
    )


def inputs_of(facts: Facts) -> Inputs:
    """Return what each derivation of a release's images is built from."""
    return {key: one.inputs for image in facts.images.values() for key, one in image.derivations.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """The divergence that no other explains: all inputs of ``moved`` agree. ``others`` are further such."""

    moved: Moved
    others: tuple[Moved, ...]


def first_divergence(moved: Sequence[Moved], inputs: Inputs) -> First | None:
    """Return the smallest derivation that differs though its inputs agree; None where none differs.

    The smallest is the one with the fewest steps one upon the other below it. ``inputs`` are those of the facts that
    were derived here.
    """
    by_id: dict[Digest, Moved] = {}
    for one in moved:
        by_id.setdefault(one.derivation, one)
    heights = _heights(inputs)
    roots = [one for key, one in by_id.items() if not any(lower in by_id for lower in inputs.get(key, ()))]
    roots.sort(key=lambda one: (heights.get(one.derivation, 0), one.derivation.hex))
    return First(moved=roots[0], others=tuple(roots[1:])) if roots else None


def _heights(inputs: Inputs) -> Mapping[Digest, int]:
    """Return how many steps stand one upon the other below each."""
    heights: dict[Digest, int] = {}
    try:
        for key in TopologicalSorter(inputs).static_order():
            heights[key] = 1 + max((heights[lower] for lower in inputs.get(key, ())), default=0)
    except CycleError:  # no table has one, and two have one together only where they contradict each other
        return {}
    return heights


def _otherwise(platform: Platform, key: Digest, old: Realised, new: Realised) -> Iterator[Row]:
    """Yield what two facts say otherwise of one derivation, but for its outputs: one of them was not derived."""
    place = f"facts.images.{platform}.derivations.{key.hex}"
    for name, left, right in (
        ("name", old.name, new.name),
        ("builder", old.builder, new.builder),
        ("inputs", _ids(old.inputs), _ids(new.inputs)),
    ):
        if left != right:
            yield Row(f"{place}.{name}", left, right)


def _ids(inputs: Sequence[Digest]) -> str:
    return " ".join(one.short for one in inputs) or _ABSENT


def _moved(platform: Platform, key: Digest, old: Realised, new: Realised) -> Moved:
    return Moved(
        platform=platform,
        derivation=key,
        name=old.name,
        builder=old.builder,
        recorded=old.outputs,
        got=new.outputs,
    )


def _named(platform: Platform, key: Digest, one: Realised) -> str:
    return f"{one.name} {key.short} {one.builder} {platform}"


def _documents(release: Release, facts: Facts, platforms: Sequence[Platform], got: Release) -> Mapping[str, Json]:
    """Return what is compared of both documents: everything but outputs, and what belongs to other platforms alone."""
    document = dict(release.document())
    document["images"] = {name: one for name, one in _mapping(document["images"]).items() if name in platforms}
    written = dict(facts.document())
    images = _mapping(written["images"])
    written["images"] = {
        name: {key: value for key, value in _mapping(one).items() if key != "derivations"}
        for name, one in images.items()
        if name in platforms
    }
    if not release.images.keys() <= set(platforms):
        shapes = _mapping(document["shapes"])
        document["shapes"] = {name: one for name, one in shapes.items() if name in got.shapes}
        written |= _of_platforms(facts, platforms)
    del written["release"]  # the digest of the other document, which may be of more platforms
    return {**document, "facts": written}


def _of_platforms(facts: Facts, platforms: Sequence[Platform]) -> dict[str, Json]:
    """Return the rows of upstreams and kernels that some platforms' images are made of."""
    steps = {key: one for platform in platforms for key, one in facts.images[platform].derivations.items()}
    outputs = {output for one in steps.values() for output in one.outputs.values()}
    ids = {key.hex for key in steps}
    return {
        "upstreams": [one.document() for one in facts.upstreams if (one.patched or one.tree) in outputs],
        "kernels": [row for row in facts.kernels if row["derivation"] in ids],
    }


def _mapping(value: Json) -> Mapping[str, Json]:
    assert isinstance(value, Mapping)
    return value


def _rows(place: str, old: Json, new: Json) -> Iterator[Row]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            inner = f"{place}.{key}" if place else key
            if key in old and key in new:
                yield from _rows(inner, old[key], new[key])
            else:
                yield Row(inner, _text(old.get(key)), _text(new.get(key)))
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new):
        for index, (left, right) in enumerate(zip(old, new, strict=True)):
            yield from _rows(f"{place}[{index}]", left, right)
    elif old != new:
        yield Row(place, _text(old), _text(new))


def _text(value: Json) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_text(one)}" for key, one in sorted(value.items())) or "an empty table"
    if isinstance(value, list | tuple):
        return f"{len(value)} elements"
    return _ABSENT if value is None else str(value)
