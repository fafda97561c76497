# SPDX-License-Identifier: Apache-2.0
"""A waiver is cleared by the evidence that it stood for: the promotion is written again, with that in its place.

Edge: reads the project's records and content. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derive.canonical import Json
from derive.errors import InputErrors
from derive.promotion.content import content_of
from derive.promotion.evidence import evidence_part, for_shape
from derive.promotion.gather import Asked, all_evidence, read_records
from derive.promotion.part import NotPromoted, joined
from derive.promotion.requirements import release_part
from derive.promotion.service import Promotion
from derive.records.chain import Chain, Entry
from derive.releases.find import find_release
from derive.releases.state import open_waivers, promotions


def clear_waiver(asked: Asked) -> Promotion:
    """Return the promotion of a shape with evidence in place of its waivers; the image is not looked at again.

    Raises:
        NotPromoted: with everything that is still missing.
        InputErrors: when no waiver stands, or no such release is known.
    """
    what = f"the waiver of {asked.name} for {asked.shape} stands"
    records, chained = read_records(asked.root)
    if chained.problems:
        raise NotPromoted(what, chained.problems)
    chain = records.chain
    known = find_release(asked.root, asked.name)
    before = _waived(chain, known.name, asked.shape)
    old = [one for one in _entries(before) if one.get("kind") != "waiver"]
    given = for_shape(all_evidence(asked, known), asked.shape)
    kept = [*old, *(one for one in given if one not in old)]
    with content_of(asked.root, known, asked.store) as content:
        resolved = content.served.shapes[asked.shape].resolved
        part = evidence_part(resolved, kept, None)
    found = joined([release_part(chain, known.name, known.release, asked.shape, whole=False), part])
    if found.problems:
        raise NotPromoted(what, found.problems)
    body = before.record.body
    again = f"what {before.file} checked, which was not checked again"
    waived = [one.reason for one in open_waivers(chain, known.name, asked.shape)]
    left = [text for text in _texts(body["unchecked"]) if not any(reason in text for reason in waived)]
    return Promotion(
        known=known,
        head=chain.head,
        body={
            **body,
            "by": asked.by,
            "why": asked.why or f"evidence in place of the waiver of {before.file}",
            "promoted_s": asked.now_s,
            "checked": [*_texts(body["checked"]), *found.checked],
            "unchecked": [*left, again],
            "evidence": kept,
        },
    )


def _waived(chain: Chain, name: str, shape: str) -> Entry:
    found = promotions(chain, name, shape)
    if not found or not open_waivers(chain, name, shape):
        hint = "those that stand: derive releases"
        raise InputErrors.one(f"no waiver of {name} stands for {shape}", hint=hint)
    return found[-1]


def _entries(entry: Entry) -> Sequence[Mapping[str, Json]]:
    found = entry.record.body["evidence"]
    assert isinstance(found, Sequence)
    return [one for one in found if isinstance(one, Mapping)]


def _texts(value: Json) -> list[str]:
    assert isinstance(value, Sequence)
    return [str(one) for one in value]
