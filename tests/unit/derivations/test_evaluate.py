# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from derive.canonical import escape
from derive.derivations.evaluate import Evaluator
from derive.derivations.model import Derivation, Platform, closure
from derive.derivations.scope import load_scope
from derive.errors import InputErrors
from support.locks import debian_lock
from support.projects import DEBIAN_WISH, FILES, pinned, project

Changes = dict[str, str | bytes | None]


def evaluator(changes: Changes | None = None, *, build_platform: Platform = "linux/amd64") -> Evaluator:
    return Evaluator(load_scope(project(changes or {}, build_platform=build_platform)))


def image(changes: Changes | None = None, platform: Platform | None = "linux/amd64") -> Derivation:
    return evaluator(changes).image("image", platform)


def named(target: Derivation, name: str) -> Derivation:
    (found,) = [one for one in closure(target) if one.name == name]
    return found


def edited(old: str, new: str, path: str = "derivations/d.toml") -> Changes:
    text = str(FILES[path])
    assert old in text
    return {path: text.replace(old, new)}


def test_an_image_is_its_layers_over_all_that_they_are_made_of() -> None:
    builders = [one.builder for one in closure(image())]
    assert builders[-1] == "image"
    assert {name: builders.count(name) for name in sorted(set(builders))} == {
        "bytecode": 3,
        "compose": 3,
        "debian-root": 1,
        "fetch-deb": 2,
        "fetch-source": 1,
        "fetch-wheel": 2,
        "image": 1,
        "install-wheel": 2,
        "layer": 2,
        "patch": 1,
        "record": 2,
        "script": 1,
        "unpack": 5,
    }


def test_without_a_platform_an_image_is_for_the_one_that_its_file_names() -> None:
    assert image(platform=None).host == "linux/arm64"
    assert image(platform=None) == image(platform="linux/arm64") != image(platform="linux/amd64")


def test_tool_roots_are_for_the_build_platform_and_all_else_for_the_host() -> None:
    script = named(image(platform="linux/arm64"), "script")
    assert (script.build, script.host) == ("linux/amd64", "linux/arm64")
    assert script.inputs["root"].derivation.host == "linux/amd64"
    roots = {one.host for one in closure(image(platform="linux/arm64")) if one.name == "root"}
    assert roots == {"linux/amd64", "linux/arm64"}


def test_another_build_platform_is_another_derivation() -> None:
    script = evaluator(build_platform="linux/arm64").derivation("script", "linux/arm64")
    assert (script.build, script.inputs["root"].derivation.host) == ("linux/arm64", "linux/arm64")
    assert script != evaluator().derivation("script", "linux/arm64")


def test_what_depends_on_no_platform_is_one_derivation_for_all() -> None:
    one, other = evaluator().derivation("patched", "linux/amd64"), evaluator().derivation("patched", "linux/arm64")
    assert one == other
    assert (one.build, one.host) == ("any", "any")


def test_a_script_that_states_its_host_has_that_one() -> None:
    script = named(image(edited("timeout = 9", 'host = "linux/amd64"'), "linux/arm64"), "script")
    assert script.host == "linux/amd64"
    assert script.arguments["environment"] == {
        "DERIVE_HOST": "linux/amd64",
        "DERIVE_HOST_TRIPLET": "x86_64-linux-gnu",
        "DERIVE_BUILD_TRIPLET": "x86_64-linux-gnu",
    }


def test_a_script_is_its_text_its_files_and_its_variables() -> None:
    script = named(image(edited("timeout = 9", 'environment = { CFLAGS = "-O2" }')), "script")
    assert script.arguments["script"] == escape(b"make\n")
    assert script.arguments["files"] == {"extra.h": escape(b"#define X\n")}
    environment = script.arguments["environment"]
    assert isinstance(environment, dict)
    assert environment["CFLAGS"] == "-O2"


TABLES = str(FILES["derivations/d.toml"]).removeprefix("[").split("\n[")

SAME: dict[str, Changes] = {
    "a timeout": edited("timeout = 9", "timeout = 8"),
    "a patch's name": {
        "patches/b/0001-a.patch": None,
        "patches/b/0007-z.patch": FILES["patches/b/0001-a.patch"],
        "patches/b/series": "# licence: MIT\n0007-z.patch\n",
    },
    "a patch's header": {"patches/b/0001-a.patch": "Author: someone\n\n" + str(FILES["patches/b/0001-a.patch"])},
    "a series' comment": {"patches/b/series": "# licence: MIT\n# reviewed\n0001-a.patch\n"},
    "a file that nothing uses": {"derivations/d/other.h": "x"},
    "the order of declarations": {
        "derivations/d.toml": "\n".join(f"[{table}" for table in reversed(TABLES)),
    },
    "where a derivation stands": {
        "derivations/d.toml": "\n".join(f"[{table}" for table in TABLES[1:]),
        "derivations/a.toml": f"[{TABLES[0]}",
    },
}


@pytest.mark.parametrize("what", SAME)
def test_no_id_moves_with(what: str) -> None:
    assert image(SAME[what]) == image()


MOVED: dict[str, tuple[Changes, str]] = {
    "a hunk": ({"patches/b/0001-a.patch": str(FILES["patches/b/0001-a.patch"]).replace("+new", "+newer")}, "patched"),
    "a script": ({"derivations/d/build.sh": "make all\n"}, "script"),
    "a script's file": ({"derivations/d/extra.h": "#define Y\n"}, "script"),
    "a variable": (edited("timeout = 9", 'environment = { A = "b" }'), "script"),
    "an allowance": (
        edited("timeout = 9", '[[script.allow]]\npath = "x"\ntext = "/build"\nreason = "y"'),
        "script",
    ),
    "leading folders": (edited('kind = "tar"', 'kind = "tar"\nstrip = 1'), "source"),
    "where a part is put": (edited('{ from = "script" }', '{ from = "script", at = "opt" }'), "all"),
    "paths of byte code": (edited('"/usr/lib/python3.13"', '"/usr/lib/python3.13/json"'), "code"),
    "a declared file": (edited('closure = "run"', 'closure = "run"\nfiles = { "/etc/x" = "y" }'), "root"),
}


@pytest.mark.parametrize("what", MOVED)
def test_the_id_of_a_step_and_of_the_image_move_with(what: str) -> None:
    changes, name = MOVED[what]
    host: Platform = "linux/amd64"
    assert evaluator(changes).derivation(name, host) != evaluator().derivation(name, host)
    assert image(changes) != image()


@pytest.mark.parametrize(
    "addition",
    ['[modes]\n"/x" = { mode = "0700" }\n', "[encoding]\nlevel = 9\n", '[config]\nuser = "1"\n'],
)
def test_what_an_image_file_says_is_in_the_image_s_id(addition: str) -> None:
    assert image({"images/image.toml": f"{FILES['images/image.toml']!s}\n{addition}"}) != image()


WHEELS = edited('set = "w"', 'set = "w"\npatches = { n = "b" }')


def test_a_series_of_a_wheel_goes_between_its_unpacked_tree_and_its_installation() -> None:
    installed, patched = (named(image(WHEELS), name) for name in ("n 1.0 installed", "n patched"))
    assert {role: one.derivation for role, one in installed.inputs.items()} == {
        "wheel": patched.inputs["source"].derivation,
        "patched": patched,
    }
    assert patched.labels == ("patches/b/0001-a.patch",)
    before = named(image(), "n 1.0 installed")
    assert (set(before.inputs), before.version) == ({"wheel"}, installed.version)


def test_only_the_wheel_that_a_series_is_named_for_moves() -> None:
    same = {one.name for one in closure(image(WHEELS))} & {one.name for one in closure(image())}
    moved = {name for name in same if named(image(WHEELS), name) != named(image(), name)}
    steps = {"n 1.0 installed", "n 1.0 byte code", "n 1.0 recorded"}
    assert moved == {*steps, "programs", "all", "code", "image layer rest", "image root", "image"}


@pytest.mark.parametrize(("what", "moves"), [("a patch's header", False), ("a hunk", True)])
def test_of_a_wheel_s_patches_only_hunks_are_in_an_id(what: str, moves: bool) -> None:
    changes = MOVED[what][0] if moves else SAME[what]
    assert (image({**WHEELS, **changes}) != image(WHEELS)) is moves


def test_a_fetch_is_named_by_its_file_and_its_id_covers_its_place() -> None:
    (wheel,) = [one for one in closure(image()) if one.builder == "fetch-wheel" and "x86_64" in one.name]
    assert wheel.arguments["file"] == wheel.name
    (deb, _) = [one for one in closure(image()) if one.builder == "fetch-deb"]
    assert {"name", "version", "architecture", "suite", "locator", "size", "sha256"} == set(deb.arguments)


def test_a_long_chain_is_evaluated() -> None:
    text = '[n{}]\nbuilder = "compose"\nparts = [{{ from = "{}" }}]\n'
    chain = "\n".join(text.format(n, f"n{n + 1}" if n < 3000 else "root") for n in range(3001))
    target = evaluator({"derivations/e.toml": chain}).derivation("n0", "linux/amd64")
    assert len(closure(target)) == 3001 + len(closure(evaluator().derivation("root", "linux/amd64")))


def refused(run: object) -> list[tuple[str, str]]:
    assert callable(run)
    with pytest.raises(InputErrors) as caught:
        run()
    return [(problem.where, problem.message) for problem in caught.value.problems()]


def test_names_and_platforms_that_are_not_there_are_refused() -> None:
    assert refused(lambda: evaluator().derivation("rot", "linux/amd64")) == [
        ("derivations/", "no derivation is named 'rot'")
    ]
    assert refused(lambda: evaluator().image("imag", None)) == [("images/", "no image is named 'imag'")]
    only = edited('platforms = ["linux/amd64", "linux/arm64"]', 'platforms = ["linux/arm64"]', "images/image.toml")
    assert refused(lambda: image(only)) == [
        ("images/image.toml: platforms", "the image image is not made for linux/amd64")
    ]


def test_what_the_locks_do_not_hold_for_a_platform_is_all_said_at_once() -> None:
    text = str(FILES["derivations/d.toml"]).replace('python = "3.13"\nroot', 'python = "3.12"\nroot', 1)
    more = (
        '\n[one]\nbuilder = "unpack"\nkind = "deb"\nfrom = { set = "x", deb = "zz" }\n'
        '\n[two]\nbuilder = "unpack"\nkind = "wheel"\nfrom = { set = "w", wheel = "zz", python = "3.13" }\n'
        '\n[three]\nbuilder = "unpack"\nkind = "tar"\nfrom = { set = "x", source = "b", part = "dsc" }\n'
        '\n[more]\nbuilder = "compose"\n'
        'parts = [{ from = "one" }, { from = "two" }, { from = "three" }, { from = "programs" }]\n'
    )
    run = evaluator({"derivations/d.toml": text + more})
    assert refused(lambda: run.derivation("more", "linux/amd64")) == [
        ("derivations/d.toml: one.from.deb", "the lock set x has no package zz for amd64"),
        ("derivations/d.toml: programs.set", "the lock set w has no wheels for Python 3.12 on linux/amd64"),
        ("derivations/d.toml: three.from.part", "b has no dsc file"),
        ("derivations/d.toml: two.from.wheel", "the lock set w has no wheel zz for Python 3.13 on linux/amd64"),
    ]
    assert run.derivation("script", "linux/amd64").name == "script", "what was wrong is forgotten afterwards"


def test_a_closure_that_is_not_for_the_platform_is_refused_with_the_wish_to_change() -> None:
    lock = debian_lock()
    amd64 = lock.closures["run"]["amd64"]
    debs = tuple(deb for deb in lock.debs if deb.file in amd64)
    cut = pinned(replace(lock, debs=debs, closures={"run": {"amd64": amd64}}), DEBIAN_WISH)
    run = evaluator({"lock/x.lock.json": cut})
    assert refused(lambda: run.image("image", "linux/arm64")) == [
        ("lock/x.toml: closures.run.architectures", "root is needed for linux/arm64, which this closure does not have")
    ]
    assert run.image("image", "linux/amd64") == image()
