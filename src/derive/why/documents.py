# SPDX-License-Identifier: Apache-2.0
"""Answers as the bodies of records: differences, causes, paths, explanations; every alternative by its ``kind``.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from derive.canonical import Json, escape
from derive.patches.identity import patch_document
from derive.patches.model import FileOperation, Hunk
from derive.why.causes import Cause
from derive.why.differences import (
    Absent,
    Artifact,
    ArtifactMoved,
    BuilderMoved,
    Difference,
    Forgotten,
    HunkMoved,
    InputMoved,
    OperationMoved,
    OrderMoved,
    PatchAdded,
    PatchMoved,
    PatchRemoved,
    TextMoved,
    Value,
    ValueMoved,
)
from derive.why.graph import Node
from derive.why.model import Became, Explanation, Time
from derive.why.path import Path


def explanation_body(found: Explanation) -> dict[str, Json]:
    """Return an explanation as the body of a record."""
    return {
        **node_document(found.node),
        "now": found.now,
        "last": _time_document(found.last),
        "first": _time_document(found.first),
        "lost": found.lost,
        "since": None if found.became is None else node_document(found.became.before),
        "since_time": _time_document(found.before),
        **({"causes": []} if found.became is None else _became(found.became)),
    }


def became_body(became: Became) -> dict[str, Json]:
    """Return how one derivation became another as the body of a record."""
    from derive.why.moved_words import moved_document

    sides = {"before": node_document(became.before), "after": node_document(became.after)}
    moved: Json = None if became.moved is None else moved_document(became.moved)
    return {**sides, **_became(became), "moved": moved}


def paths_body(paths: Sequence[Path]) -> dict[str, Json]:
    """Return paths as the body of a record."""
    return {"paths": [path_document(path) for path in paths]}


def _became(became: Became) -> dict[str, Json]:
    return {
        "label_only": became.label_only,
        "same_output": became.same_output,
        "engines": None if became.engines is None else list(became.engines),
        "causes": [cause_document(cause) for cause in became.causes],
    }


def _time_document(time: Time | None) -> Json:
    if time is None:
        return None
    return {
        "outcome": time.outcome,
        "when_s": time.when_s,
        "duration_ns": time.duration_ns,
        "target": time.target,
    }


def cause_document(cause: Cause) -> dict[str, Json]:
    """Return a cause as a part of a record."""
    return {
        "path": list(cause.path),
        "moved_bytes": cause.moved_bytes,
        "steps": cause.steps,
        "difference": difference_document(cause.difference),
    }


def node_document(node: Node) -> dict[str, Json]:
    """Return what a derivation is called."""
    return {
        "name": node.name,
        "host": node.host,
        "builder": f"{node.builder}/{node.version}",
        "derivation": str(node.id),
    }


def path_document(path: Path) -> list[Json]:
    """Return a path: each step, and the role in which it uses the next one."""
    return [{**node_document(link.node), "uses_as": link.role or None} for link in path.links]


def difference_document(difference: Difference) -> dict[str, Json]:  # noqa: PLR0911 - one for each alternative
    """Return a difference as a part of a record."""
    match difference:
        case BuilderMoved(before, after):
            return {"kind": "builder", "before": before, "after": after}
        case ValueMoved(place, before, after):
            return {"kind": "value", "place": place, **_present("before", before), **_present("after", after)}
        case TextMoved(place, before, after):
            return {"kind": "text", "place": place, "before": _bytes(before), "after": _bytes(after)}
        case PatchAdded(patch, number, operations):
            return {"kind": "patch-added", "patch": patch, "number": number, **patch_document(operations)}
        case PatchRemoved(patch, number, operations):
            return {"kind": "patch-removed", "patch": patch, "number": number, **patch_document(operations)}
        case PatchMoved(patch, before, after):
            return {"kind": "patch-moved", "patch": patch, "before": before, "after": after}
        case HunkMoved(patch, path, number, before, after):
            hunk: dict[str, Json] = {"kind": "hunk", "patch": patch, "path": escape(path), "number": number}
            return hunk | {"before": _hunk(before), "after": _hunk(after)}
        case OperationMoved(patch, path, before, after):
            operation: dict[str, Json] = {"kind": "operation", "patch": patch, "path": escape(path)}
            return operation | {"before": _operation(before), "after": _operation(after)}
        case ArtifactMoved(before, after, fields):
            return {
                "kind": "lock-entry",
                "before": artifact_document(before),
                "after": artifact_document(after),
                "fields": list(fields),
            }
        case InputMoved(role, before, after):
            return {"kind": "input", "role": role, "before": before, "after": after}
        case OrderMoved(before, after):
            return {"kind": "order", "before": list(before), "after": list(after)}
        case Forgotten(derivation):
            return {"kind": "unknown", "derivation": str(derivation)}
        case _:
            assert_never(difference)


def artifact_document(artifact: Artifact | None) -> Json:
    """Return an artifact: all that its lock entry says, or its hash alone."""
    if artifact is None:
        return None
    return {"output": artifact.output} if artifact.facts is None else {"output": artifact.output, **artifact.facts}


def _present(key: str, value: Value) -> Mapping[str, Json]:
    return {} if isinstance(value, Absent) else {key: value}


def _bytes(data: bytes | None) -> str | None:
    return None if data is None else escape(data)


def _hunk(hunk: Hunk | None) -> Json:
    if hunk is None:
        return None
    lines: list[Json] = [line.tag + escape(line.content) for line in hunk.lines]
    return {"line": hunk.start, "lines": lines}


def _operation(operation: FileOperation | None) -> Json:
    return None if operation is None else patch_document([operation])["operations"]
