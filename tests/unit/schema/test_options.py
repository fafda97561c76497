# SPDX-License-Identifier: Apache-2.0
"""Options read from sources that nobody imports: a small program with a parser built like vLLM's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.argument_trees import FILES, read_options, run_script, write_tree


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return read_options(write_tree(tmp_path_factory.mktemp("program") / "tree"))


@pytest.fixture(scope="module")
def options(document: Any) -> Any:
    return document["options"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("maybe", {"choices": ["a", "b", "c", None], "type": "text", "optional": True}),
        ("open", {"known": ["a", "b", "c"], "type": "text", "default": "c"}),
        ("formats", {"type": "text", "default": "auto"}),
        ("old-style", {"type": "int", "optional": True}),
        ("either", {"type": "int", "optional": True}),
        ("noted", {"type": "int", "default": 2}),
        ("names", {"type": "text", "nargs": "+", "default": []}),
        ("levels", {"type": "text", "nargs": "+", "optional": True, "choices": ["a", "b", None]}),
        ("pair", {"type": "int", "nargs": 2, "default": [1, 2]}),
        ("table", {"type": "json", "default": {}}),
        ("table-or-text", {"type": "json-or-text", "default": "x"}),
        ("flag-or-text", {"type": "text", "nargs": "?", "const": True}),
        ("inner", {"type": "config", "config": "Inner", "default": {"made": "Inner()"}}),
        ("backend", {"type": "text", "enum": "Backend", "default": {"member": "SPARSE"}}),
        ("later", {"type": "int", "optional": True}),
    ],
)
def test_each_kind_of_annotation_gives_what_argparse_would_be_told(
    options: Any, name: str, expected: dict[str, object]
) -> None:
    got = {key: value for key, value in options[name].items() if key != "names"}
    assert got == expected


def test_a_renamed_option_has_all_its_names_and_loses_the_choices_that_are_taken_away(options: Any) -> None:
    assert options["renamed-mode"]["names"] == ["--renamed-mode", "-m"]
    assert options["renamed-mode"]["choices"] == ["a"]
    assert "mode" not in options


def test_a_second_long_name_is_an_alias_and_bounds_are_kept(options: Any) -> None:
    assert options["share"]["names"] == ["--fraction", "--share"]
    assert options["share"]["bounds"] == {"gt": 0, "le": 1}
    assert options["share"]["default"] == {"decimal": "0.9"}


def test_a_default_that_the_parser_is_told_goes_before_that_of_the_class(options: Any) -> None:
    assert options["size"]["type"] == "size"
    assert "default" not in options["size"]


def test_a_boolean_option_has_every_form_that_switches_it_off(options: Any) -> None:
    assert options["enable-flag"]["negative"] == ["--disable-flag", "--no-enable-flag"]


def test_help_that_says_so_marks_an_option_as_deprecated(options: Any) -> None:
    assert options["odd"]["deprecated"] is True
    assert "deprecated" not in options["size"]


def test_a_value_that_is_held_against_its_class_later_has_the_keys_of_that_class(document: Any) -> None:
    option = document["options"]["speculative-config"]
    assert (option["type"], option["config"]) == ("json", "Inner")
    keys = document["configs"]["Inner"]["fields"]
    assert keys["depth"] == {"bounds": {"ge": 1, "le": 8}, "default": 3, "type": ["int"]}
    assert keys["backend"] == {"converted": True, "type": [{"enum": "Backend"}, "none"]}
    assert document["enums"]["Backend"] == {"names": ["FLASH", "SPARSE"], "values": ["x", "y"]}


def test_functions_of_classes_are_followed_through_their_bases(options: Any) -> None:
    assert options["role"]["default"] == "assistant"
    assert options["port"] == {"default": 8000, "names": ["--port"], "type": "int"}
    assert options["words"] == {"names": ["--words"], "repeated": True, "type": "text"}


def test_a_function_that_reads_a_value_first_is_named(options: Any) -> None:
    assert options["kind"]["through"] == "lambda"
    assert options["kind"]["choices"] == ["x", "y"]


def test_variables_have_their_kind_their_default_and_their_choices(document: Any) -> None:
    assert document["variables"] == {
        "VLLM_DEV": {"default": "0", "kind": "int"},
        "VLLM_LEVEL": {"choices": ["low", "high"], "default": "low", "exact": False, "kind": "choice"},
        "VLLM_NAME": {"kind": "text"},
        "VLLM_PORT": {"default": "0", "kind": "int"},
        "VLLM_RATE": {"default": "0.5", "kind": "float"},
        "VLLM_ROOT": {"default": {"expression": "os.path.expanduser('~')"}, "kind": "text"},
    }


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("vllm/engine/arg_utils.py", "return parser\nclass", "parser.set_defaults(x=1)\n        return parser\nclass",
         "vllm.engine.arg_utils:33: parser.set_defaults"),
        ("vllm/engine/arg_utils.py", "if not only:", "while only:", "while only"),
        ("vllm/engine/arg_utils.py", 'cache["size"]', 'cache["gone"]', "no key 'gone'"),
        ("vllm/engine/arg_utils.py", "if not (", "if elsewhere(", "cannot say whether this holds"),
        ("vllm/engine/arg_utils.py", 'cache["mode"]["choices"].remove("b")', "more(parser)", "more may add options"),
        ("vllm/config/cache.py", "either: Union[int, None]", "either: f(int)", "no type that is known: f(int)"),
    ],
)  # fmt: skip
def test_what_has_no_rule_is_an_error_with_its_place(
    tmp_path: Path, file: str, old: str, new: str, message: str
) -> None:
    assert old in FILES[file]
    tree = write_tree(tmp_path / "tree", {file: FILES[file].replace(old, new)})
    done = run_script("options.py", tree, tmp_path / "out.json")
    assert done.returncode == 1
    assert message in done.stderr
    assert not (tmp_path / "out.json").exists()


def test_locale_folder_and_hash_seed_decide_no_byte(tmp_path: Path) -> None:
    first = write_tree(tmp_path / "a")
    second = write_tree(tmp_path / "other" / "b", dict(reversed(FILES.items())))
    run_script("options.py", first, tmp_path / "1.json", LC_ALL="C", PYTHONHASHSEED="1")
    run_script("options.py", second, tmp_path / "2.json", LC_ALL="C.UTF-8", PYTHONHASHSEED="2")
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()
