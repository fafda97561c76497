# SPDX-License-Identifier: Apache-2.0
"""Every kind of difference, as a person reads it and as a record holds it."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from derive.canonical import decode, sha256
from derive.patches.model import Create, Hunk, Line, Rename, SetExecutable
from derive.why.causes import Cause
from derive.why.differences import (
    ABSENT,
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
    ValueMoved,
)
from derive.why.documents import cause_document
from derive.why.render import render
from derive.why.words import cause_lines, time_text, value_text

HUNKS = [Hunk(start, (Line(" ", b"a\n"), Line("+", new), Line(" ", b"z\n"))) for start, new in ((3, b"b\n"), (4, b"c"))]
BASH = [
    Artifact(
        "00", {"name": "bash", "version": version, "architecture": "arm64", "size": 3, "locator": f"pool/{version}"}
    )
    for version in ("5.2", "5.3")
]
MOVED = [Artifact("00", {"name": "bash", "version": "5.2", "locator": place}) for place in ("a", "b")]
COMMITS = [Artifact("00", {"name": "vllm", "commit": text * 40}) for text in ("a", "b")]
CREATED = [Create(path=b"f", contents=text) for text in (b"a\n", b"b\n")]

CASES: list[tuple[Difference, list[str]]] = [
    (BuilderMoved("script/1", "script/2"), ["builder script/1 -> script/2"]),
    (ValueMoved("a.b", 1, {"x": "y"}), ['a.b: 1 -> {"x":"y"}']),
    (ValueMoved("a.b", ABSENT, True), ["a.b = true added"]),
    (ValueMoved("a.b", "x\x1b", ABSENT), ['a.b = "x\\u001b" removed']),
    (TextMoved("script", b"a\n", b"b\n"), ["script", "  line 1", "  -a", "  +b"]),
    (TextMoved("f", None, b"b\x1b\n"), ["f added", "  line 0 -> 1", "  +b\\x1b"]),
    (PatchAdded("p", 2, (CREATED[0],)), ["p added, as number 2: creates f of 2 bytes"]),
    (
        PatchRemoved("p", 2, (SetExecutable(path=b"f", executable=True), Rename(old=b"a", new=b"b"))),
        ["p removed, was number 2: makes f executable, renames a to b"],
    ),
    (PatchMoved("p", 1, 2), ["p moved: number 1 -> 2"]),
    (
        HunkMoved("p", b"f\xff", 2, HUNKS[0], HUNKS[1]),
        ["p: f\\xff, hunk 2, line 3 -> 4", "    a", "  -+b", "  ++c  (no newline at the end)", "    z"],
    ),
    (HunkMoved("p", b"f", 2, None, HUNKS[0]), ["p: f, hunk 2 added, line 3", "   a", "  +b", "   z"]),
    (HunkMoved("p", b"f", 2, HUNKS[0], None), ["p: f, hunk 2 removed, line 3", "   a", "  +b", "   z"]),
    (
        OperationMoved("p", b"f", CREATED[0], CREATED[1]),
        ["p: f: creates f of 2 bytes -> creates f of 2 bytes", "  line 1", "  -a", "  +b"],
    ),
    (OperationMoved("p", b"f", CREATED[0], None), ["p: f: creates f of 2 bytes -> nothing"]),
    (
        ArtifactMoved(BASH[0], BASH[1], ("locator", "version")),
        ["bash 5.2 -> 5.3 (arm64)", '  locator: "pool/5.2" -> "pool/5.3"'],
    ),
    (ArtifactMoved(None, BASH[1]), ["bash 5.3 (arm64) added"]),
    (ArtifactMoved(BASH[0], None), ["bash 5.2 (arm64) removed"]),
    (ArtifactMoved(MOVED[0], MOVED[1], ("locator",)), ["bash 5.2: locator moved in the lock", '  locator: "a" -> "b"']),
    (ArtifactMoved(COMMITS[0], COMMITS[1], ("commit",)), [f"vllm {'a' * 12} -> {'b' * 12}"]),
    (ArtifactMoved(Artifact("flat:1"), Artifact("flat:2")), ["flat:1 -> flat:2"]),
    (InputMoved("root", "a", "b"), ["input root: a -> b"]),
    (InputMoved("root", None, "b"), ["input root added: b"]),
    (InputMoved("root", "a", None), ["input root removed: a"]),
    (OrderMoved(("a", "b"), ("b", "a")), ["order: a b -> b a"]),
    (
        Forgotten(sha256(b"")),
        ["drv:e3b0c44298fc is not known to this store: what moved in it or below it cannot be said"],
    ),
]


@pytest.mark.parametrize(("difference", "lines"), CASES)
def test_a_difference_reads_well_and_is_whole_in_a_record(difference: Difference, lines: list[str]) -> None:
    cause = Cause(path=("top", "low"), difference=difference, steps=2)
    shown = render(cause_lines(cause), colour=False).splitlines()
    assert shown[0] == f"{lines[0]}  (2 steps)"
    assert shown[-1] == "  in low < top"
    assert [row for row in shown[1:-1] if row not in lines[1:]] == (
        ['  commit: "' + "a" * 40 + '" -> "' + "b" * 40 + '"'] if "vllm" in shown[0] else []
    )
    assert [row for row in lines[1:] if row not in shown] == []
    document = cause_document(cause)
    assert decode(json.dumps(document).encode()) == json.loads(json.dumps(document))


def test_every_kind_of_difference_is_among_the_cases() -> None:
    assert {type(difference) for difference, _ in CASES} == set(get_args(Difference))


def test_a_long_value_is_cut() -> None:
    assert value_text("x" * 200).endswith("...")
    assert len(value_text("x" * 200)) == 100


def test_times_are_in_utc() -> None:
    assert time_text(0) == "1970-01-01 00:00:00 UTC"
