# SPDX-License-Identifier: Apache-2.0
"""Evidence for a release: records below records/, judged and named by their digest."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.canonical import Json, encode, sha256
from derive.errors import InputErrors
from derive.records.chain import read_chain
from derive.records.model import record
from derive.releases.evidence import evidence_problems, read_evidence, read_waivers, require_about
from derive.releases.policy import date_text
from derive.releases.speaks import About
from support.chained import Chained

SHAPES = ("ring", "triangle")
NOW = 1_790_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "records" / "releases").mkdir(parents=True)
    bodies: dict[str, dict[str, Json]] = {
        "benchmark": {"shape": "ring", "release": "demo-1"},
        "kernel-report": {"run": {"bundle": {"gpu": "sm_90a", "units": ["act_quant"]}, "ok": True}},
        "arguments": {},
    }
    for name, kind in (("bench", "benchmark"), ("kernels", "kernel-report"), ("arguments", "arguments")):
        (tmp_path / "records" / f"{name}.json").write_bytes(encode(record(kind, "demo", bodies[kind])))
    (tmp_path / "records" / "empty.json").write_bytes(encode(record("benchmark", "demo", {})))
    (tmp_path / "records" / "broken.json").write_bytes(b"{")
    (tmp_path / "records" / "releases" / "0001-a.json").write_bytes(encode(record("benchmark", "demo", {})))
    (tmp_path / "elsewhere.json").write_bytes(encode(record("benchmark", "demo", {})))
    return tmp_path


def test_evidence_is_named_by_kind_path_shape_and_the_digest_of_its_bytes(root: Path) -> None:
    kernels = str(root / "records" / "kernels.json")
    first, second = read_evidence(root, [kernels, "records/bench.json:ring"], SHAPES)
    data = (root / "records" / "bench.json").read_bytes()
    assert first == {
        "kind": "benchmark",
        "digest": str(sha256(data)),
        "file": "records/bench.json",
        "shape": "ring",
        "reason": None,
        "expires_s": None,
    }
    assert (second["kind"], second["file"], second["shape"]) == ("kernel", "records/kernels.json", None)


def test_a_report_of_no_shape_may_speak_for_two_and_counts_once_for_each(root: Path) -> None:
    texts = ["records/kernels.json:triangle", "records/kernels.json:ring", "records/kernels.json:ring"]
    assert [one["shape"] for one in read_evidence(root, texts, SHAPES)] == ["ring", "triangle"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("records/bench.json", "a benchmark is evidence for one shape"),
        ("records/bench.json:circle", "no shape 'circle' in this recipe"),
        ("records/bench.json:triangle", "measured on another shape"),
        ("records/absent.json", "cannot be read: no such file or directory"),
        ("records/arguments.json", "no record that can be evidence"),
        ("records/broken.json", "no record: cannot be read as JSON: line 1, column 2"),
        ("records/releases/0001-a.json", "not below records/, where evidence is kept"),
        ("elsewhere.json", "not below records/, where evidence is kept"),
        ("/etc/hostname", "does not lie in the project, whose records are kept together"),
        ("records/\0", "does not lie in the project, whose records are kept together"),
    ],
)
def test_what_is_no_evidence_is_refused_by_its_place(root: Path, text: str, message: str) -> None:
    with pytest.raises(InputErrors) as caught:
        read_evidence(root, [text], SHAPES)
    assert [one.message for one in caught.value.problems()] == [message]


def test_a_report_that_says_nothing_proves_nothing(root: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        read_evidence(root, ["records/empty.json:ring"], SHAPES)
    assert [(one.where, one.detail) for one in caught.value.problems()] == [
        ("records/empty.json: body", ("expected  release, image or images", "got       an empty body")),
        ("records/empty.json: body.shape", ("expected  the name of a shape", "got       nothing")),
    ]


def test_a_report_of_another_release_is_refused_once_the_release_is_known(root: Path) -> None:
    entries = read_evidence(root, ["records/bench.json:ring"], SHAPES)
    require_about(root, entries, About(name="demo-1", release="sha256:1", images=()))
    with pytest.raises(InputErrors) as caught:
        require_about(root, entries, About(name="demo-2", release="sha256:2", images=()))
    (problem,) = caught.value.problems()
    assert (problem.where, problem.message) == ("records/bench.json: body.release", "measured on another release")
    assert problem.detail == ("expected  demo-2 or sha256:2", "got       'demo-1'")


def test_evidence_that_an_earlier_record_took_unread_is_found(root: Path) -> None:
    chained = Chained()
    entries: list[dict[str, Json]] = read_evidence(root, ["records/bench.json:ring"], SHAPES)
    chained.release("demo-2", evidence=entries)
    (problem,) = evidence_problems(root, read_chain(chained.files))
    assert problem.message == "measured on another release"


def test_all_that_is_wrong_is_said_at_once(root: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        read_evidence(root, ["records/bench.json", "elsewhere.json"], SHAPES)
    assert len(caught.value.problems()) == 2


def test_a_waiver_has_a_shape_a_reason_and_a_day_that_still_counts() -> None:
    (found,) = read_waivers(["ring=no ring at hand"], "2027-01-31", SHAPES, NOW)
    assert (found["kind"], found["shape"], found["reason"]) == ("waiver", "ring", "no ring at hand")
    assert date_text(int(str(found["expires_s"])) - 1) == "2027-01-31"


@pytest.mark.parametrize(
    ("texts", "expires"),
    [(["ring"], "2027-01-31"), (["circle=x"], "2027-01-31"), (["ring=x"], None), (["ring=x"], "2020-01-01"),
     (["ring=x\ny"], "2027-01-31"), (["ring=\x1b[31mx"], "2027-01-31"), (["ring=x"], "soon"),
     (["ring="], "2027-01-31"), ([], "2027-01-31")],
)  # fmt: skip
def test_what_is_no_waiver_is_refused(texts: list[str], expires: str | None) -> None:
    with pytest.raises(InputErrors):
        read_waivers(texts, expires, SHAPES, NOW)


def test_evidence_that_was_edited_or_is_gone_since_is_found(root: Path) -> None:
    chained = Chained()
    entries: list[dict[str, Json]] = read_evidence(root, ["records/bench.json:ring", "records/kernels.json"], SHAPES)
    chained.release("demo-1", evidence=entries)
    chain = read_chain(chained.files)
    assert list(evidence_problems(root, chain)) == []
    (root / "records" / "bench.json").write_bytes(b"{}")
    (root / "records" / "kernels.json").unlink()
    edited, gone = evidence_problems(root, chain)
    assert (edited.where, edited.message) == (
        "records/bench.json",
        "not what 0001-demo-1.json names as evidence 0: edited since",
    )
    assert gone.where == "records/kernels.json"
