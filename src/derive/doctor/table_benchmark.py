# SPDX-License-Identifier: Apache-2.0
"""The checks of benchmarks: that a shape is held against what was measured on it, and on the same baseline.

Core: no IO.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from derive.doctor.check import Answer, Check, Unknown, each_shape, key_place
from derive.doctor.model import Unreadable
from derive.errors import Problem, expected_got

if TYPE_CHECKING:
    from derive.canonical import Json
    from derive.doctor.case import Case
    from derive.recipes.resolved import Resolved

_MATCHING = ("nodes", "transport", "kernel_backend")
"""What a benchmark must have in common with the shape that it is the reference of."""


def _baseline(case: Case, resolved: Resolved) -> Iterator[Answer]:
    """Hold the names of what was measured, where the record has them, against what recipe and locks name now."""
    path = resolved.promotion.benchmark
    if path is None:
        return
    body = _body(case.facts.records.get(path))
    if body is None:
        yield Unknown(where=path, reason="cannot be read as a record: see benchmark.reference")
        return
    pin = resolved.model
    model = body.get("model")
    said = model if isinstance(model, dict) else {}
    pairs: list[tuple[str, Json, Json]] = [
        ("recipe", resolved.recipe, body.get("recipe")),
        ("shape", resolved.shape, body.get("shape")),
        ("image-name", resolved.image, body.get("image-name")),
        ("model.repository", None if pin is None else pin.repository, said.get("repository")),
        ("model.revision", None if pin is None else pin.revision, said.get("revision")),
    ]
    for key, wanted, got in pairs:
        if got is not None and got != wanted:
            detail = expected_got(wanted or "none, as nothing is pinned", got)
            message = "measured on another baseline than recipe and locks name"
            yield Problem(where=f"{path}: body.{key}", message=message, detail=detail)


def _benchmark(case: Case, resolved: Resolved) -> Iterator[Answer]:
    path = resolved.promotion.benchmark
    if path is None:
        return
    where = key_place(resolved, "promotion.benchmark")
    if not _is_inside(path):
        detail = expected_got("a path below records/", path)
        yield Problem(where=where, message="not a record of this repository", detail=detail)
        return
    data = case.facts.records.get(path)
    if isinstance(data, Unreadable):
        yield Unknown(where=data.where, reason=data.reason)
        return
    body = _body(data)
    if body is None:
        yield Problem(where=where, message=f"no such file: {path}" if data is None else f"{path} is no record")
        return
    for key in _MATCHING:
        wanted = getattr(resolved, key)
        got = body.get(key)
        if key in body and got != wanted:
            detail = expected_got(wanted, got)
            yield Problem(
                where=f"{path}: body.{key}", message="measured on another shape than it qualifies", detail=detail
            )


def _recorded(case: Case, resolved: Resolved) -> Iterator[Answer]:
    path = resolved.promotion.benchmark
    if path is None:
        if resolved.model is not None:
            where = key_place(resolved, "promotion.benchmark")
            yield Problem(where=where, message="no benchmark is named, so nothing says how this shape should perform")
        return
    body = _body(case.facts.records.get(path))
    if body is None:
        yield Unknown(where=path, reason="cannot be read as a record: see benchmark.reference")
        return
    for key in _MATCHING:
        if key not in body:
            message = f"does not record {key}, so nobody can tell whether it was measured on this shape"
            yield Problem(where=f"{path}: body", message=message)


def _body(data: bytes | Unreadable | None) -> Mapping[str, Json] | None:
    try:
        document = json.loads(data) if isinstance(data, bytes) else None
    except ValueError:
        return None
    if not isinstance(document, dict) or document.get("derive") != "record/1":
        return None
    body = document.get("body")
    return body if isinstance(body, dict) else None


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return parts[:1] == ("records",) and len(parts) > 1 and ".." not in parts


CHECKS: tuple[Check, ...] = (
    Check(
        id="baseline.same",
        severity="error",
        what="recipe, locks and the benchmark that a shape names are of one baseline",
        why="figures of another checkpoint or recipe say nothing of what would be deployed",
        how="recipe, shape, image-name and model (repository, revision) of the record of promotion.benchmark, where it "
        "has them, against the shape and the pin in its lock; no image is derived, so digests are not compared",
        fix="measure again, or name the record of what recipe and locks name",
        place="recipes/*.toml lock/ records/",
        judge=each_shape(_baseline),
        over="shapes",
    ),
    Check(
        id="benchmark.reference",
        severity="error",
        what="the benchmark that a shape names is a record here, measured on such a shape",
        why="a shape held against the figures of another one passes or fails for no reason",
        how="promotion.benchmark is a record below records/; its nodes, transport and kernel_backend are the shape's "
        "where it has them",
        fix="name the record of this shape",
        place="recipes/*.toml records/",
        judge=each_shape(_benchmark),
        over="shapes",
    ),
    Check(
        id="benchmark.recorded",
        severity="warn",
        what="every shape that serves a model names a benchmark that says what it was measured on",
        why="without one, slower than before cannot be told from as fast as ever",
        how="promotion.benchmark is there, and its record has nodes, transport and kernel_backend",
        fix="measure the shape, and name the record in promotion.benchmark",
        place="recipes/*.toml records/",
        judge=each_shape(_recorded),
        over="shapes",
    ),
)
