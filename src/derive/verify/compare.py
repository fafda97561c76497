# SPDX-License-Identifier: Apache-2.0
"""Compares what verifying an image found with what an earlier record says: a new finding is one that is not in it.

Core: no IO.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from derive.canonical import Json
from derive.errors import InputErrors

_KIND = "verify"


def recorded(data: bytes, file: str) -> Mapping[str, Json]:
    """Return the body of a record of verifying; raises InputErrors when it is none."""
    try:
        document = json.loads(data)
    except ValueError as error:
        raise InputErrors.one(f"not JSON: {error}", where=file) from error
    body = document.get("body") if isinstance(document, dict) else None
    if not isinstance(body, dict) or document.get("kind") != _KIND or not isinstance(body.get("findings"), list):
        raise InputErrors.one("not a record of verifying", where=file, hint="write one: derive verify --record FILE")
    return body


def new_findings(now: Mapping[str, Json], before: Mapping[str, Json]) -> Sequence[Json]:
    """Return the findings that an earlier record does not have, however many versions of packages moved."""
    known = {_same(one) for one in _findings(before)}
    return [one for one in _findings(now) if _same(one) not in known]


def moved(now: Mapping[str, Json], before: Mapping[str, Json]) -> Sequence[str]:
    """Return the names of what else is another than in an earlier record."""
    return [key for key in sorted(now) if key != "looked_at" and now[key] != before.get(key)]


def _findings(body: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    found = body["findings"]
    assert isinstance(found, list | tuple)
    return [one for one in found if isinstance(one, Mapping)]


def _same(finding: Mapping[str, Json]) -> tuple[Json, ...]:
    """Return what makes two findings the same: an owner's version is no part of it."""
    owner = str(finding.get("owner", "")).split(" ")[:2]
    return (*(finding.get(key) for key in ("rule", "path", "about", "what")), *owner)
