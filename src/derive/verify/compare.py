# SPDX-License-Identifier: Apache-2.0
"""Compares what verifying an image found with what an earlier record says: a new finding is one that is not in it.

Core: no IO.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from derive.canonical import Json
from derive.errors import InputErrors, Problem, expected_got

_KIND = "verify"


def recorded(data: bytes, file: str, image: str) -> Mapping[str, Json]:
    """Return the body of a record of verifying an image; raises InputErrors when it is none."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        raise InputErrors.one(f"not JSON: {why}", where=file) from error
    body = document.get("body") if isinstance(document, dict) else None
    if not isinstance(body, dict) or document.get("kind") != _KIND or not isinstance(body.get("findings"), list):
        raise InputErrors.one("not a record of verifying", where=file, hint="write one: derive verify --record FILE")
    if document.get("subject") != image:
        raise InputErrors.one(
            "a record of another image",
            where=f"{file}: subject",
            detail=expected_got(image, document.get("subject", "none")),
            hint=f"compare with a record of this one: derive verify {image} --record FILE",
        )
    return body


def require_platform(before: Mapping[str, Json], platform: Json, file: str) -> None:
    """Refuse a record of another platform: all of it would differ, and none of that would say anything."""
    if before.get("platform") != platform:
        problem = Problem(
            where=f"{file}: body.platform",
            message="a record of another platform",
            detail=expected_got(str(platform), str(before.get("platform", "none"))),
            hint="compare with a record of this platform, or name that one with --platform",
        )
        raise InputErrors([problem])


def new_findings(now: Mapping[str, Json], before: Mapping[str, Json]) -> Sequence[Json]:
    """Return the findings that an earlier record does not have, however many versions of packages moved."""
    known = {_same(one) for one in _findings(before)}
    return [one for one in _findings(now) if _same(one) not in known]


def moved(now: Mapping[str, Json], before: Mapping[str, Json]) -> Sequence[str]:
    """Return the names of what else is another than in an earlier record; exceptions are told one by one."""
    return [key for key in sorted(now) if key not in ("looked_at", "exceptions") and now[key] != before.get(key)]


def moved_exceptions(now: Mapping[str, Json], before: Mapping[str, Json]) -> Sequence[str]:
    """Return a line for each exception that is used now and not as it stands in an earlier record, and the reverse.

    One whose reason or pattern changed is both. How many findings it takes is no part of it.
    """
    ours, theirs = ([_named(one) for one in _entries(body, "exceptions")] for body in (now, before))
    added = [f"an exception that it does not have: {one}" for one in ours if one not in theirs]
    return [*added, *(f"an exception that is gone: {one}" for one in theirs if one not in ours)]


def _named(exception: Mapping[str, Json]) -> str:
    keys = [key for key in ("path", "owner", "about", "licence") if key in exception]
    named = ", ".join(f"{key} {exception[key]}" for key in keys)
    return f"{exception.get('rule')}: {named}: {exception.get('reason')}"


def _findings(body: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    return _entries(body, "findings")


def _entries(body: Mapping[str, Json], key: str) -> list[Mapping[str, Json]]:
    found = body.get(key, ())
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []


def _same(finding: Mapping[str, Json]) -> tuple[str, ...]:
    """Return what makes two findings the same: an owner's version is no part of it."""
    owner = str(finding.get("owner", "")).split(" ")[:2]
    return (*(str(finding.get(key)) for key in ("rule", "path", "about", "what")), *owner)
