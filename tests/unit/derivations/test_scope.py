# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.derivations.declarations import parse_declarations
from derive.derivations.scope import absent, load_scope, references
from derive.errors import InputErrors, Problem
from support.projects import FILES, project


def problems(changes: dict[str, str | bytes | None], default_image: str = "image") -> list[tuple[str, str]]:
    """Return what is wrong with the sound project after changes: (where, message)."""
    with pytest.raises(InputErrors) as caught:
        load_scope(project(changes, default_image=default_image))
    return [(problem.where, problem.message) for problem in caught.value.problems()]


def test_a_sound_project_has_everything_by_name() -> None:
    scope = load_scope(project({}))
    assert sorted(scope.declared) == ["all", "code", "patched", "programs", "root", "script", "source"]
    assert sorted(scope.images) == ["image"]
    assert {name: lock.kind for name, lock in scope.locks.items()} == {"x": "debian", "w": "python"}
    assert [patch.name for patch in scope.series["b"].patches] == ["0001-a.patch"]


def test_scripts_stand_in_the_folder_of_their_file() -> None:
    scope = load_scope(project({}))
    assert scope.script(scope.declared["script"], "build.sh") == b"make\n"
    assert scope.script(scope.declared["script"], "other.sh") is None


def test_files_that_are_no_declarations_are_not_read() -> None:
    load_scope(
        project({"derivations/d/inner.toml": "[", "derivations/README": "[", "images/README": "x", "lock/x": ""})
    )


PATCHED = str(FILES["derivations/d.toml"]).replace('set = "w"', 'set = "w"\npatches = { n = "b" }')


def test_a_series_of_a_wheel_is_checked_with_the_key_that_names_it() -> None:
    load_scope(project({"derivations/d.toml": PATCHED}))
    wrong = 'patches = { n = "c", nn = "b" }\nwithout = { n = "not here" }'
    assert problems({"derivations/d.toml": PATCHED.replace('patches = { n = "b" }', wrong)}) == [
        ("derivations/d.toml: programs.patches.n", "a series for a wheel that is left out by without"),
        ("derivations/d.toml: programs.patches.n", "no series under patches/ is named 'c'"),
        ("derivations/d.toml: programs.patches.nn", "no wheel in the lock is named 'nn'"),
    ]


def test_a_patch_of_a_wheel_leaves_record_alone() -> None:
    patch = str(FILES["patches/b/0001-a.patch"]).replace("/file", "/n-1.0.dist-info/RECORD")
    assert problems({"derivations/d.toml": PATCHED, "patches/b/0001-a.patch": patch}) == [
        ("patches/b/0001-a.patch", "changes RECORD, which is written anew when the wheel is installed")
    ]
    load_scope(project({"patches/b/0001-a.patch": patch}))  # of another tree, it is a file like any other


def test_one_name_in_two_files_is_refused() -> None:
    assert problems({"derivations/e.toml": '[root]\nbuilder = "debian-root"\nset = "x"\nclosure = "run"\n'}) == [
        ("derivations/e.toml: root", "declared in derivations/d.toml already")
    ]


def test_names_that_nothing_has_are_refused_each_with_its_key() -> None:
    text = str(FILES["derivations/d.toml"])
    changed = (
        text.replace('from = "source"', 'from = "sauce"')
        .replace('root = "root"', 'root = "rot"')
        .replace('series = "b"', 'series = "c"')
        .replace('closure = "run"', 'closure = "walk"')
        .replace('source = "b"', 'source = "z"')
        .replace('in = "patched"', 'in = "parched"')
        .replace('{ from = "script" }', '{ from = "scrip" }')
    )
    assert problems({"derivations/d.toml": changed}) == [
        ("derivations/d.toml: all.parts[1].from", "no derivation is named 'scrip'"),
        ("derivations/d.toml: code.root", "no derivation is named 'rot'"),
        ("derivations/d.toml: patched.from", "no derivation is named 'sauce'"),
        ("derivations/d.toml: patched.series", "no series under patches/ is named 'c'"),
        ("derivations/d.toml: programs.root", "no derivation is named 'rot'"),
        ("derivations/d.toml: root.closure", "no closure in the lock is named 'walk'"),
        ("derivations/d.toml: script.inputs.in", "no derivation is named 'parched'"),
        ("derivations/d.toml: script.root", "no derivation is named 'rot'"),
        ("derivations/d.toml: source.from.source", "no source package in the lock is named 'z'"),
    ]


def test_a_name_whose_declaration_is_wrong_is_no_second_problem() -> None:
    text = str(FILES["derivations/d.toml"]).replace('script = "build.sh"', "script = 1")
    assert problems({"derivations/d.toml": text}) == [
        ("derivations/d.toml: script.script", "input should be a valid string")
    ]


def test_where_a_file_cannot_be_read_no_name_is_said_to_be_absent() -> None:
    assert [where for where, _ in problems({"derivations/d.toml": "[", "images/image.toml": "]"})] == [
        "derivations/d.toml",
        "images/image.toml",
    ]


def test_a_default_image_that_is_not_there_is_refused() -> None:
    assert problems({}, default_image="imag") == [
        ("pyproject.toml: tool.derive.default-image", "no image is named 'imag'")
    ]


def test_a_cycle_is_named_once_with_all_its_members() -> None:
    text = '[{}]\nbuilder = "compose"\nparts = [{{ from = "{}" }}]\n'
    loop = "\n".join(text.format(name, target) for name, target in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")))
    assert problems({"derivations/e.toml": loop}) == [("derivations/e.toml: a", "a cycle: a -> b -> c -> a")]


def test_a_long_chain_is_no_cycle_and_no_recursion() -> None:
    text = '[n{}]\nbuilder = "compose"\nparts = [{{ from = "{}" }}]\n'
    chain = "\n".join(text.format(n, f"n{n + 1}" if n < 3000 else "root") for n in range(3001))
    load_scope(project({"derivations/e.toml": chain}))


def test_a_lock_of_the_other_kind_is_refused() -> None:
    text = str(FILES["derivations/d.toml"]).replace('set = "w"', 'set = "x"').replace(
        'set = "x"\nclosure', 'set = "w"\nclosure'
    )  # fmt: skip
    assert problems({"derivations/d.toml": text}) == [
        ("derivations/d.toml: programs.set", "lock set x is not of kind python"),
        ("derivations/d.toml: root.set", "lock set w is not of kind debian"),
    ]


def test_a_set_without_pins_and_one_whose_wish_changed_are_refused() -> None:
    wish = str(FILES["lock/x.toml"]).replace('"bb"]', '"bb", "cc"]')
    assert problems({"lock/w.lock.json": None, "lock/x.toml": wish}) == [
        ("lock/w.lock.json", "missing: this set has no pins"),
        ("lock/x.toml", "changed since it was locked"),
    ]


@pytest.mark.parametrize(
    ("changes", "where", "message"),
    [
        ({"derivations/d/build.sh": None}, "derivations/d.toml: script.script", "no file derivations/d/build.sh"),
        ({"derivations/d/extra.h": None}, "derivations/d.toml: script.files[0]", "no file derivations/d/extra.h"),
        ({"derivations/d/build.sh": b"\xff"}, "derivations/d/build.sh", "not UTF-8, at byte 0"),
        ({"derivations/d/build.sh": b"a\0"}, "derivations/d/build.sh", "a zero byte"),
        ({"images/Upper.toml": FILES["images/image.toml"]}, "images/Upper.toml", "not a name for an image"),
        ({"images/a/b.toml": FILES["images/image.toml"]}, "images/a/b.toml", "not a name for an image"),
        ({"patches/b/0002-b.patch": ""}, "patches/b/0002-b.patch", "not in the series"),
    ],
)
def test_a_file_that_is_wrong_is_named(changes: dict[str, str | bytes | None], where: str, message: str) -> None:
    assert (where, message) in problems(changes)


@pytest.mark.parametrize(
    ("line", "key", "message"),
    [
        ('environment = { PATH = "x" }', "environment.PATH", "the sandbox itself sets PATH"),
        ('environment = { DERIVE_HOST = "x" }', "environment.DERIVE_HOST", "the sandbox sets this variable itself"),
        ('environment = { "a b" = "x" }', 'environment."a b"', "not a name for a variable: 'a b'"),
    ],
)
def test_what_no_sandbox_can_be_asked_is_refused(line: str, key: str, message: str) -> None:
    text = str(FILES["derivations/d.toml"]).replace("timeout = 9", line)
    assert problems({"derivations/d.toml": text}) == [(f"derivations/d.toml: script.{key}", message)]


def test_an_input_may_not_hide_the_script_s_files() -> None:
    text = str(FILES["derivations/d.toml"]).replace('{ in = "patched" }', '{ files = "patched" }')
    assert problems({"derivations/d.toml": text}) == [
        ("derivations/d.toml: script.inputs.files", "the script finds its files under this name")
    ]


def test_every_name_that_a_declaration_gives_is_a_reference() -> None:
    declared = parse_declarations(str(FILES["derivations/d.toml"]).encode(), "d").declarations
    assert {name: list(references(one)) for name, one in declared.items()} == {
        "root": [],
        "source": [],
        "patched": [("from", "source")],
        "script": [("root", "root"), ("inputs.in", "patched")],
        "programs": [("root", "root")],
        "code": [("from", "programs"), ("root", "root")],
        "all": [("parts[0].from", "programs"), ("parts[1].from", "script")],
    }


def test_a_name_that_is_near_is_offered_and_else_the_hint() -> None:
    assert absent("w", "image", "imgae", ["image"], "list them") == Problem(
        where="w", message="no image is named 'imgae'", hint="did you mean image?"
    )
    assert absent("w", "image", "zzz", ["image"], "list them").hint == "list them"
