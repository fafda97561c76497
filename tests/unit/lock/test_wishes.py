# SPDX-License-Identifier: Apache-2.0
"""Reading wishes: every problem at once, and an identity that layout does not move."""

from __future__ import annotations

import pytest

from derive.errors import InputErrors, Problem
from derive.lock.wishes import DebianWish, PythonWish, parse_wish, require_wish, wish_digest

KEYRING = """
[keyring]
locator = "pool/main/d/debian-archive-keyring/debian-archive-keyring_2025.1_all.deb"
sha256 = "9ea7778e443144ca490668737a8ab22dd3e748bb99e805e22ec055abeb3c7fac"
size = 179244
member = "usr/share/keyrings/debian-archive-keyring.pgp"
"""
DEBIAN = f"""
kind = "debian"
suite = "trixie"
security = true
{KEYRING}
[closures.runtime]
architectures = ["amd64", "arm64"]
essential = true
packages = ["python3.13", "ca-certificates"]
[closures.toolchain]
architectures = ["amd64"]
foreign = ["arm64"]
packages = ["gcc", "libibverbs-dev:arm64", "make=4.4.1-2"]
[sources]
packages = ["perftest", {{name = "hello", version = "2.10-5"}}]
"""
PYTHON = """
kind = "python"
pythons = ["3.12", "3.13"]
architectures = ["amd64"]
glibc = "2.41"
exclude-newer = "2026-11-20T00:00:00Z"
requirements = ["numpy==2.3.5", "rich>=15"]
[overrides.TileLang]
version = "0.1.15"
reason = "the pin in vllm is too strict"
"""


def wish(text: str) -> DebianWish | PythonWish:
    found = require_wish(text.encode(), "lock/x.toml")
    assert isinstance(found, DebianWish | PythonWish)
    return found


def problems(text: str) -> list[Problem]:
    found, told = parse_wish(text.encode(), "lock/x.toml")
    assert found is None
    return told


def places(text: str) -> list[str]:
    return sorted(problem.where for problem in problems(text))


def test_a_debian_wish_is_read_whole() -> None:
    found = wish(DEBIAN)
    assert isinstance(found, DebianWish)
    assert found.components == ("main",)
    assert found.all_suites == ("trixie", "trixie-security")
    assert found.closures["toolchain"].foreign == ("arm64",)
    assert found.sources is not None
    assert [(source.name, source.version) for source in found.sources.packages] == [
        ("perftest", None),
        ("hello", "2.10-5"),
    ]


def test_a_python_wish_is_read_whole() -> None:
    found = wish(PYTHON)
    assert isinstance(found, PythonWish)
    assert found.overrides["TileLang"].version == "0.1.15"
    assert found.exclude_newer == "2026-11-20T00:00:00Z"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('suite = "trixie"', 'suite = "trixie"  # the current stable'),
        ('["python3.13", "ca-certificates"]', '["ca-certificates",\n  "python3.13"]'),
        ('["amd64", "arm64"]', '["arm64", "amd64"]'),
        ('{name = "hello", version = "2.10-5"}', '{version = "2.10-5", name = "hello"}'),
        ('suite = "trixie"', 'components = ["main"]\nsuite = "trixie"'),
    ],
)
def test_layout_comments_and_order_do_not_move_the_digest(old: str, new: str) -> None:
    assert old in DEBIAN
    assert wish_digest(wish(DEBIAN)) == wish_digest(wish(DEBIAN.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("security = true", "security = false"),
        ("essential = true", ""),
        ('"make=4.4.1-2"', '"make=4.4.1-3"'),
        ("2.10-5", "2.10-4"),
        ("size = 179244", "size = 179245"),
    ],
)
def test_what_is_wanted_moves_the_digest(old: str, new: str) -> None:
    assert wish_digest(wish(DEBIAN)) != wish_digest(wish(DEBIAN.replace(old, new)))


def test_the_reason_and_spelling_of_an_override_do_not_move_the_digest_and_its_version_does() -> None:
    base = wish_digest(wish(PYTHON))
    assert wish_digest(wish(PYTHON.replace("too strict", "out of date"))) == base
    assert wish_digest(wish(PYTHON.replace("TileLang", "tilelang"))) == base
    assert wish_digest(wish(PYTHON.replace("0.1.15", "0.1.16"))) != base


def test_the_digest_of_a_wish_is_stable() -> None:
    assert str(wish_digest(wish(PYTHON))) == ("sha256:1529edce6fec99f1c352c347df4ff847766591f4cd9566e2300f038fc7cb8c0b")


def test_every_problem_is_told_with_its_key() -> None:
    text = DEBIAN.replace('"python3.13"', '"Python 3"').replace("size = 179244", 'size = "big"')
    text = text.replace("[sources]", "[sources]\ncolour = 1").replace('suite = "trixie"', "")
    assert places(text) == [
        "lock/x.toml: closures.runtime.packages[0]",
        "lock/x.toml: keyring.size",
        "lock/x.toml: sources.colour",
        "lock/x.toml: suite",
    ]


@pytest.mark.parametrize(
    ("old", "new", "where", "message"),
    [
        ('"libibverbs-dev:arm64"', '"libc6:riscv64"', "closures.toolchain", "that the closure does not declare"),
        ('foreign = ["arm64"]', 'foreign = ["amd64"]', "closures.toolchain", "both native and foreign: amd64"),
        ('["amd64", "arm64"]', '["sparc"]', "closures.runtime.architectures[0]", "amd64"),
        ('["amd64", "arm64"]', '["amd64", "amd64"]', "closures.runtime.architectures", "named twice: amd64"),
        ('["perftest", ', '["hello", ', "sources.packages", "named twice: hello"),
        ("pool/main", "http://h/pool/main", "keyring.locator", "pattern"),
    ],
)
def test_contradictions_are_told(old: str, new: str, where: str, message: str) -> None:
    assert old in DEBIAN
    (problem,) = problems(DEBIAN.replace(old, new))
    assert problem.where == f"lock/x.toml: {where}"
    assert message in problem.message


@pytest.mark.parametrize(
    ("old", "new", "where", "message"),
    [
        ("numpy==2.3.5", "numpy===", "requirements[0]", "not a requirement"),
        ("numpy==2.3.5", "numpy @ https://h/numpy.whl", "requirements[0]", "names no URL"),
        ('glibc = "2.41"', "glibc = 2.41", "glibc", "string"),
        ("2026-11-20T00:00:00Z", "yesterday", "exclude-newer", "pattern"),
        ('version = "0.1.15"', 'version = "new"', "overrides.TileLang.version", "not a version"),
        ('"3.12", "3.13"', '"3"', "pythons[0]", "pattern"),
        ("[overrides.TileLang]", "[overrides.tilelang]\nversion='1'\nreason='x'\n[overrides.TileLang]", "", "twice"),
    ],
)
def test_python_wishes_are_checked(old: str, new: str, where: str, message: str) -> None:
    assert old in PYTHON
    (problem,) = problems(PYTHON.replace(old, new))
    assert problem.where == (f"lock/x.toml: {where}" if where else "lock/x.toml")
    assert message in problem.message


def test_a_closure_of_nothing_is_refused() -> None:
    text = f'kind = "debian"\nsuite = "trixie"\n{KEYRING}\n[closures.a]\narchitectures = ["amd64"]\n'
    assert "a closure of nothing" in problems(text)[0].message


def test_a_wish_of_nothing_is_refused() -> None:
    assert "nothing is wanted" in problems(f'kind = "debian"\nsuite = "trixie"\n{KEYRING}')[0].message


def test_the_kind_decides() -> None:
    assert problems("a = 1")[0].where == "lock/x.toml: kind"
    assert "no such kind: 'rpm'" in problems('kind = "rpm"')[0].message


def test_bad_toml_names_the_file_and_line() -> None:
    with pytest.raises(InputErrors) as caught:
        require_wish(b"kind = \n", "lock/x.toml")
    (problem,) = caught.value.problems()
    assert problem.where == "lock/x.toml"
    assert "line 1" in problem.message
