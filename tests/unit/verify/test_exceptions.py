# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from derive.derivations.scope import load_scope
from derive.errors import InputErrors
from derive.records.model import record
from derive.verify.compare import moved, moved_exceptions, new_findings, recorded, require_platform
from derive.verify.declarations import parse_verify, verify_decl
from support.projects import project
from support.verifying import SOUND, findings, image, verified

LINKS = {"a": "gone", "b": "lost"}
KNOWN = '[[exceptions]]\nrule = "link"\npath = "/a"\nreason = "nobody follows it"\n'


def test_an_exception_takes_the_findings_that_it_names_and_no_other() -> None:
    report = verified(image(SOUND, LINKS), KNOWN)
    assert [one.path for one in report.findings] == ["/b"]
    assert [(one.declared.reason, len(one.findings)) for one in report.excepted] == [("nobody follows it", 1)]


def test_a_pattern_that_names_what_a_finding_is_about_narrows_it() -> None:
    text = '[[exceptions]]\nrule = "link"\npath = "*"\nabout = "lo*"\nreason = "r"\n'
    assert findings(image(SOUND, LINKS), text) == [("link", "/a", "gone")]


def test_an_exception_that_nothing_needs_is_a_finding() -> None:
    assert [rule for rule, _, _ in findings(image(SOUND), KNOWN)] == ["stale"]


def test_an_exception_of_one_platform_is_stale_there_alone() -> None:
    text = KNOWN + 'platforms = ["linux/arm64"]\n'
    assert findings(image(SOUND), text) == []
    assert [rule for rule, _, _ in findings(image(SOUND, LINKS), text)] == ["link", "link"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[exceptions]]\nrule = "link"\nreason = "r"\n', "name a path or an owner"),
        ('[[exceptions]]\nrule = "lnk"\npath = "*"\nreason = "r"\n', "no such rule"),
        ('[[exceptions]]\nrule = "link"\npath = "*"\nreason = ""\n', "at least 1"),
        ('[[exceptions]]\nrule = "licence"\nowner = "a"\nreason = "r"\n', "says which it is"),
        ('[[exceptions]]\nrule = "link"\npath = "a"\nlicence = "MIT"\nreason = "r"\n', "says which it is"),
        ('[[exceptions]]\nrule = "stale"\npath = "*"\nreason = "r"\n', "no such rule"),
        ('[driver]\nversion = "new"\n', "not a version of a driver"),
        ('[serving.devices]\n"linux/amd64" = ["sm_121a"]\n', "a GPU is not"),
        ('[serving]\nowners = ["a"]\n[serving.devices]\n', "unknown key"),
        ("[sreving]\n", "unknown key"),
        ("[", "not valid TOML"),
    ],
)
def test_what_a_verify_file_may_not_say_is_refused_with_its_place(text: str, said: str) -> None:
    _, problems = parse_verify(text.encode(), "images/verify/x.toml")
    (problem,) = problems
    assert said in problem.message
    assert problem.where.startswith("images/verify/x.toml")


def test_a_verify_file_is_no_image_and_moves_no_derivation() -> None:
    with_file = project({"images/verify/image.toml": KNOWN})
    assert load_scope(with_file).images.keys() == load_scope(project({})).images.keys()
    assert [one.path for one in verify_decl(with_file, "image").exceptions] == ["/a"]


def test_a_verify_file_of_no_image_is_refused() -> None:
    with pytest.raises(InputErrors) as caught:
        verify_decl(project({"images/verify/imgae.toml": KNOWN}), "image")
    (problem,) = caught.value.problems()
    assert problem.where == "images/verify/imgae.toml"
    assert problem.hint == "did you mean image?"


def test_a_finding_is_new_when_the_record_does_not_have_it() -> None:
    before = verified(image(SOUND, {"a": "gone"})).document()
    known = recorded(json.dumps(record("verify", "x", before)).encode(), "f", "x")
    before, now = (json.loads(json.dumps(one)) for one in (before, verified(image(SOUND, LINKS)).document()))
    assert new_findings(before, known) == []
    assert moved(before, known) == []
    assert [one["path"] for one in new_findings(now, known) if isinstance(one, dict)] == ["/b"]
    assert moved(now, known) == ["findings"]


def test_exceptions_that_came_changed_or_went_are_told_and_are_no_findings() -> None:
    tree = image(SOUND, LINKS)
    second = KNOWN.replace("/a", "/b")
    before, other, more = (
        json.loads(json.dumps(verified(tree, text).document()))
        for text in (KNOWN + second, KNOWN.replace("nobody", "no one") + second, KNOWN.replace("/a", "*"))
    )
    assert moved_exceptions(before, before) == []
    assert moved_exceptions(other, before) == [
        "an exception that it does not have: link: path /a: no one follows it",
        "an exception that is gone: link: path /a: nobody follows it",
    ]
    assert moved_exceptions(more, before)[0] == "an exception that it does not have: link: path *: nobody follows it"
    assert [new_findings(one, before) for one in (other, more)] == [[], []]
    assert moved(other, before) == []


def test_a_record_of_another_platform_is_refused() -> None:
    body = json.loads(json.dumps(verified(image(SOUND, platform="linux/arm64")).document()))
    with pytest.raises(InputErrors) as caught:
        require_platform(body, "linux/amd64", "f.json")
    (problem,) = caught.value.problems()
    assert problem.where == "f.json: body.platform"
    assert problem.detail == ("expected  linux/amd64", "got       linux/arm64")


def test_a_record_of_another_image_is_refused() -> None:
    data = json.dumps(record("verify", "other", verified(image(SOUND)).document())).encode()
    with pytest.raises(InputErrors) as caught:
        recorded(data, "f.json", "x")
    (problem,) = caught.value.problems()
    assert (problem.where, problem.message) == ("f.json: subject", "a record of another image")
    assert problem.detail == ("expected  x", "got       other")


def test_a_record_whose_findings_are_nonsense_knows_no_finding() -> None:
    now = json.loads(json.dumps(verified(image(SOUND, {"a": "gone"})).document()))
    known = recorded(b'{"kind": "verify", "subject": "x", "body": {"findings": [{"rule": []}, 5]}}', "f", "x")
    assert len(new_findings(now, known)) == 1


@pytest.mark.parametrize(
    "data",
    [b"{", b"[]", b'{"kind": "image", "body": {"findings": []}}', b'{"kind": "verify"}', b"[" * 100_000, b"\xff"],
)
def test_what_is_no_record_of_verifying_is_refused(data: bytes) -> None:
    with pytest.raises(InputErrors):
        recorded(data, "f", "x")
