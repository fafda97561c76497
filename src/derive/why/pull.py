# SPDX-License-Identifier: Apache-2.0
"""What of an image someone must pull who has another one: which layers, how many bytes, and what the two share.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Blob: TypeAlias = tuple[str, int]
"""Digest, and size in bytes as registries carry it."""


@dataclass(frozen=True, slots=True)
class LayerRow:
    """A layer of two images, by digest and size in bytes; None where one has none.

    ``number`` is its place in the second image, or in the first where the second has none; ``name`` what it is called,
    empty where that is not known.
    """

    number: int
    before: Blob | None
    after: Blob | None
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """What is to be pulled: ``layers`` that the first image has not, and ``documents`` bytes of manifest and config.

    ``shared`` are the layers of the second image that the first has, ``shared_bytes`` their size.
    """

    layers: tuple[Blob, ...]
    documents: int
    shared: int
    shared_bytes: int

    @property
    def size(self) -> int:
        """Bytes to pull in all."""
        return self.documents + sum(size for _, size in self.layers)


def pull(before: Sequence[Blob], after: Sequence[Blob], documents: int) -> Pull:
    """Return what of the second image someone must pull who has the first; a layer that stands twice is pulled once."""
    here, wanted = set(before), tuple(dict.fromkeys(after))
    shared = [one for one in wanted if one in here]
    return Pull(
        layers=tuple(one for one in wanted if one not in here),
        documents=documents,
        shared=len(shared),
        shared_bytes=sum(size for _, size in shared),
    )


def layer_rows(
    before: Sequence[Blob], after: Sequence[Blob], names: Mapping[str, str] | None = None
) -> Iterator[LayerRow]:
    """Pair the layers of two images: those that are the same, those of one name, and the others in their order.

    ``names`` are those of layers, by digest. Rows are in the order of the second image, then come those that it lacks.
    """
    known = names or {}
    left = dict(enumerate(before))
    paired: dict[int, int] = {}
    for alike in (
        lambda old, new: old == new,
        lambda old, new: known.get(old[0], "") == known.get(new[0]),
        lambda old, new: old[0] not in known and new[0] not in known,
    ):
        for place, new in enumerate(after):
            found = None if place in paired else next((n for n, old in left.items() if alike(old, new)), None)
            if found is not None:
                paired[place] = found
                del left[found]
    for place, new in enumerate(after):
        old = before[paired[place]] if place in paired else None
        yield LayerRow(place, old, new, known.get(new[0], ""))
    yield from (LayerRow(place, old, None, known.get(old[0], "")) for place, old in left.items())
