# SPDX-License-Identifier: Apache-2.0
"""The verdict: the same bytes, or the first place that differs and which of the inputs moved.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import CanonicalError, Json, decode
from derive.prove.compare import Difference
from derive.prove.statement import Statement
from derive.recipes.values import json_text

_IN_WORDS = frozenset(
    {"derive", "nodes", "files", "launch-bundle", "recipe", "shape", "image", "platform", "renderer"}
    | {"model", "site", "shape-bundle"}
)
"""Keys of a manifest that are no inputs, and those that are told in other words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was compared with what, and every difference; ``moved`` are inputs that a manifest has otherwise.

    ``labels`` say where the two lines of a difference stand; ``folder`` whether the first stands in a rendered folder.
    """

    against: str
    labels: tuple[str, str] = ("rendered here", "rendered there")
    folder: bool = False
    files: int
    differing: tuple[Difference, ...]
    moved: tuple[tuple[str, str, str], ...] = ()

    @property
    def same(self) -> bool:
        """Whether all bytes are the same."""
        return not self.differing


def moved_inputs(made: Statement, manifest: bytes, rendered: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield each input that a manifest says otherwise: what it is, what the manifest says, what it is now.

    ``rendered`` is the manifest that is rendered now: what it says of deployability follows from files beside these.
    """
    try:
        document, current = decode(manifest), decode(rendered)
    except CanonicalError:
        return
    if not isinstance(document, Mapping) or not isinstance(current, Mapping):
        return
    model, site = document.get("model"), document.get("site")
    pin = made.model
    pairs: list[tuple[str, Json, Json]] = [
        ("recipe", document.get("recipe"), made.recipe),
        ("shape", document.get("shape"), made.shape),
        ("image", document.get("image"), str(made.image_digest)),
        ("platform", document.get("platform"), made.platform),
        ("renderer", document.get("renderer"), made.renderer),
        ("model", _revision(model), None if pin is None else f"{pin.repository} {pin.revision or 'not pinned'}"),
        ("site", site.get("digest") if isinstance(site, Mapping) else None, str(made.site_digest)),
        ("shape bundle", document.get("shape-bundle"), str(made.shape_digest)),
    ]
    for what, said, now in pairs:
        if said != now:
            yield what, str(said or "nothing"), str(now or "nothing")
    for key in sorted(current.keys() - _IN_WORDS):
        if document.get(key) != current[key]:
            yield key, json_text(document.get(key)), json_text(current[key])


def lines(verdict: Verdict) -> Iterator[str]:
    """Yield the verdict for people."""
    if verdict.same:
        yield f"the same bytes: {verdict.files} files, {verdict.against}"
        return
    first, *others = verdict.differing
    place = "" if first.offset is None else f": byte {first.offset}, line {first.line}"
    yield f"not the same bytes{'' if verdict.folder else ':'} {verdict.against}"
    yield f"first at {first.path}{place}"
    width = max(map(len, verdict.labels))
    for label, text in zip(verdict.labels, (first.expected, first.got), strict=True):
        yield f"  {label:<{width}}  {text}"
    if others:
        yield f"and {len(others)} more: {', '.join(one.path for one in others[:8])}{' ...' if len(others) > 8 else ''}"
    for what, said, now in verdict.moved:
        yield f"moved     {what}: {said} -> {now}"
    if verdict.folder and not verdict.moved:
        yield f"moved     no input: {'these files were' if others else 'the file was'} changed by hand"


def verdict_body(verdict: Verdict) -> dict[str, Json]:
    """Return the verdict as a part of a record's body."""
    return {
        "same": verdict.same,
        "against": verdict.against,
        "files": verdict.files,
        "differing": [
            {
                "path": one.path,
                "offset_bytes": one.offset,
                "line": one.line,
                "expected": one.expected,
                "got": one.got,
            }
            for one in verdict.differing
        ],
        "moved": [{"what": what, "before": said, "after": now} for what, said, now in verdict.moved],
    }


def _revision(model: Json) -> str | None:
    if not isinstance(model, Mapping):
        return None
    return f"{model.get('repository')} {model.get('revision') or 'not pinned'}"
