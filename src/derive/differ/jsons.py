# SPDX-License-Identifier: Apache-2.0
"""Two JSON documents, by the paths of the keys whose values differ.

Core: no IO.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from derive.differ.model import Report, Unread

_SHOWN = 60


def compare_json(report: Report, first: bytes, second: bytes) -> None:
    """Say which keys are added, removed or have other values; raises Unread for what is no JSON, or too deep."""
    values = []
    for data in (first, second):
        try:
            values.append(json.loads(data))
        except (ValueError, RecursionError) as error:
            raise Unread("no JSON") from error
    try:
        rows = list(islice(_differences("", values[0], values[1]), report.limits.rows * 100))
    except RecursionError as error:
        raise Unread("nested too deeply") from error
    if not rows:
        raise Unread("the same values, written otherwise")
    report.rows(rows)


def _differences(path: str, old: object, new: object) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            place = f"{path}.{key}" if path else str(key)
            if key not in new:
                yield f"- {place} = {_text(old[key])}"
            elif key not in old:
                yield f"+ {place} = {_text(new[key])}"
            else:
                yield from _differences(place, old[key], new[key])
    elif isinstance(old, list) and isinstance(new, list):
        for index, (left, right) in enumerate(zip(old, new, strict=False)):
            yield from _differences(f"{path}[{index}]", left, right)
        if len(old) != len(new):
            yield f"{path or 'the document'}: {len(old)} -> {len(new)} elements"
    elif type(old) is not type(new) or old != new:
        yield f"{path or 'the document'}: {_text(old)} -> {_text(new)}"


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
