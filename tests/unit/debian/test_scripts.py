# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.canonical import sha256
from derive.debian.control import Stanza
from derive.debian.declaration import Excuse, RootDeclaration
from derive.debian.package import UnpackedDeb
from derive.debian.scripts import judge_scripts
from derive.trees.listing import EMPTY, File, Listing

FILE = File(executable=True, size=0, sha256=sha256(b""))


def package(name: str, *scripts: bytes) -> UnpackedDeb:
    stanza = Stanza((("Package", name), ("Version", "1"), ("Architecture", "all")))
    return UnpackedDeb(stanza=stanza, control=Listing.of(dict.fromkeys(scripts, FILE)), data=EMPTY)


def excuse(pattern: str, reason: str = "why") -> Excuse:
    return Excuse(pattern=pattern, reason=reason)


def test_covered_comes_before_waived_and_every_match_counts_as_used() -> None:
    declaration = RootDeclaration(
        architecture="amd64", covered=(excuse("a.*", "one"),), waived=(excuse("a.preinst", "two"), excuse("*", "three"))
    )
    judged = judge_scripts([package("a", b"preinst", b"config"), package("b", b"postinst")], declaration)
    assert judged.problems == ()
    assert judged.log == (
        "not run: a:all preinst: covered: one",
        "not run: a:all config",
        "not run: b:all postinst: waived: three",
    )


def test_scripts_that_run_on_removal_need_no_excuse() -> None:
    judged = judge_scripts([package("a", b"prerm", b"postrm")], RootDeclaration(architecture="amd64"))
    assert (judged.problems, len(judged.log)) == ((), 2)


def test_a_pattern_is_for_package_and_script_and_case_counts() -> None:
    declaration = RootDeclaration(architecture="amd64", waived=(excuse("A.preinst"), excuse("a.post*")))
    judged = judge_scripts([package("a", b"preinst")], declaration)
    assert [problem.where for problem in judged.problems] == ["a:all: preinst", "waived.A.preinst", "waived.a.post*"]
