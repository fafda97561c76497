# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace

import pytest

from derive.audit.compare import Compared, First, Moved, Row
from derive.audit.verdict import Again, Today, Verdict
from derive.canonical import encode, sha256
from derive.derivations.model import FlatOutput
from derive.errors import Problem
from derive.why.render import line, render

A, B = FlatOutput(sha256(b"a")), FlatOutput(sha256(b"b"))
MOVED = Moved(
    platform="linux/amd64",
    derivation=sha256(b"hello"),
    name="hello",
    builder="script/1",
    recorded={"out": A},
    got={"out": B},
)
SAME = Verdict(
    name="one",
    release=sha256(b"release"),
    outcome="same",
    platforms=("linux/amd64",),
    images={"linux/amd64": sha256(b"image")},
    compared=Compared(platforms=("linux/amd64",), derivations=1, outputs=2),
)
DIFFERS = replace(
    SAME,
    outcome="differs",
    compared=Compared(
        platforms=("linux/amd64",),
        derivations=4,
        outputs=5,
        moved=(MOVED, replace(MOVED, derivation=sha256(b"above"), name="above")),
        rows=(Row("images.linux/amd64.digest", "old", "new"),),
    ),
    first=First(moved=MOVED, others=()),
    again=Again(outputs={"out": B}),
)


def told(verdict: Verdict) -> str:
    return render(verdict.lines(), colour=False)


def test_the_same_is_told_with_what_was_counted() -> None:
    assert told(SAME) == f"the same: 1 derivation, 2 outputs, image linux/amd64 {sha256(b'image')}"
    assert SAME.exit_code == 0


def test_a_first_divergence_is_told_whole() -> None:
    shown = replace(DIFFERS, shown=(line("x: other contents"),), shown_of="output out, recorded and got")
    assert told(shown).splitlines() == [
        "image linux/amd64: recorded old, got new",
        "differs first: hello, script/1, linux/amd64: all its inputs agree",
        f"  derivation  {MOVED.derivation.hex}",
        "  output out",
        f"    recorded  {A}",
        f"    got       {B}",
        "  output out, recorded and got:",
        "    x: other contents",
        (
            "  built a second time it is the same here, and other than recorded: "
            "the machine, its kernel, or a builder that changed without a new version"
        ),
        "  differ because of it: 1 derivation",
    ]
    assert shown.exit_code == 1


@pytest.mark.parametrize(
    ("again", "words"),
    [
        (Again(outputs={"out": A}, differs=("out",)), "the step gives other bytes each time (random, or the time)"),
        (Again(outputs=None, why_not="it failed"), "it was not built a second time: it failed"),
        (None, "it was not built a second time"),
    ],
)
def test_the_second_build_says_why(again: Again | None, words: str) -> None:
    assert words in told(replace(DIFFERS, again=again))


def test_a_builder_that_changed_unseen_is_a_finding_though_all_is_the_same() -> None:
    verdict = replace(SAME, today=Today(engine=sha256(b"today"), moved=(MOVED,), unlike=0))
    assert verdict.exit_code == 1
    assert "builder script/1 changed without a new version: equal ids, other outputs: hello" in told(verdict)
    assert "builder script/1 changed without a new version" in told(
        replace(DIFFERS, today=Today(engine=sha256(b"today"), moved=(MOVED,), unlike=0))
    )


def test_new_versions_of_builders_are_no_finding() -> None:
    verdict = replace(SAME, today=Today(engine=sha256(b"today"), moved=(), unlike=3))
    assert verdict.exit_code == 0
    assert told(verdict).endswith("today's engine gives 3 derivations another id: new versions of builders")


def test_what_was_altered_is_told_before_anything_is_built() -> None:
    problem = Problem(where="capsule", message="fetch-deb a was altered", detail=("expected  x",), hint="copy it again")
    verdict = replace(SAME, outcome="altered", problems=(problem,), compared=None)
    assert told(verdict).splitlines() == [
        "capsule: fetch-deb a was altered",
        "  expected  x",
        "  copy it again",
        "one is not as it was recorded: nothing was built",
    ]
    assert verdict.exit_code == 1


def test_documents_that_differ_without_any_step_are_told_by_key() -> None:
    verdict = replace(DIFFERS, first=None, again=None)
    assert "came out otherwise than recorded, and no step that both have differs" in told(verdict)
    assert "  images.linux/amd64.digest: old -> new" in told(verdict)


@pytest.mark.parametrize("verdict", [SAME, DIFFERS, replace(SAME, outcome="whole", compared=None)])
def test_every_verdict_is_a_canonical_document(verdict: Verdict) -> None:
    assert json.loads(encode(verdict.body()))["outcome"] == verdict.outcome
