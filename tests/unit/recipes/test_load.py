# SPDX-License-Identifier: Apache-2.0
"""Reading recipes: what is wrong is said all at once, each with its place."""

from __future__ import annotations

import pytest

from derive.canonical import Json
from derive.errors import InputErrors
from derive.recipes.load import load_recipe, read_recipe, recipe_names
from support.recipes import FILE, SMALL, edited, files, loaded, problems, said


def test_a_recipe_is_what_its_file_says() -> None:
    recipe = loaded()
    assert (recipe.name, recipe.file, recipe.image, recipe.default_shape) == ("small", FILE, "ds41f", "ring")
    assert list(recipe.shapes) == ["ring", "triangle"]
    assert "shapes" not in recipe.shared


def test_only_files_of_the_folder_itself_are_recipes() -> None:
    names = recipe_names(
        {"recipes/b.toml": b"", "recipes/a.toml": b"", "recipes/a/memory.toml": b"", "lock/x.toml": b""}
    )
    assert names == ("a", "b")


def test_a_recipe_that_is_not_there_is_told_with_the_nearest() -> None:
    with pytest.raises(InputErrors) as caught:
        load_recipe(files(), "smal")
    (problem,) = caught.value.problems()
    assert (problem.where, problem.hint) == ("recipes/smal.toml", "did you mean small?")


def test_keys_that_recipes_have_not_are_refused_where_they_stand() -> None:
    text = edited(
        ("port = 8000", "port = 8000\nprot = 1"), ('tuning = "tp3"', 'tunning = "tp3"\n[shapes.triangle.bed]')
    )
    text = text.replace("[guard.startup]", "[guard.startup]\nflor = 1")
    assert [(one.where.removeprefix(f"{FILE}: "), one.message, one.hint) for one in problems(text)] == [
        ("guard.startup.flor", "unknown key", "did you mean floor?"),
        ("service.prot", "unknown key", "did you mean port?"),
        ("shapes.triangle.bed", "unknown key", None),
        ("shapes.triangle.tunning", "unknown key", "did you mean tuning?"),
    ]


def test_a_shape_alone_has_a_cabling_and_a_file_alone_has_an_image() -> None:
    text = SMALL.replace('transport = "nccl-ring"', 'transport = "nccl-ring"\ncabling = "ring4"')
    assert said(text + 'image = "probe"\n') == [("cabling", "unknown key"), ("shapes.triangle.image", "unknown key")]


def test_a_file_in_a_folder_of_its_own_is_no_recipe() -> None:
    (problem,) = read_recipe(files(), "ds41f/memory")[1]
    assert (problem.where, problem.message) == ("recipes/ds41f/memory.toml", "no recipe is called 'ds41f/memory'")


def test_a_key_with_control_characters_is_told_in_one_line() -> None:
    text = edited(('SET = "here"', 'SET = "here"\n"a\\nb\\u001b[31m" = "x"'))
    assert said(text) == [('environment."a\\nb\\u001B[31m"', "not the name of an environment variable")]


def test_a_number_written_as_the_table_that_numbers_are_kept_as_is_refused() -> None:
    text = edited(("max-num-seqs = 4", 'max-num-seqs = 4\nlimit-mm-per-prompt = { image = { decimal = "1}" } }'))
    (problem,) = problems(text)
    assert problem.where == f"{FILE}: arguments.limit-mm-per-prompt.image"
    assert problem.message == "a table with no key but decimal, which is how numbers are kept"


@pytest.mark.parametrize(
    ("table", "place", "message"),
    [
        ('memory = "2GiB"\nmemory-swap = "1GiB"', "memory-swap", "below container.memory, which it contains"),
        ('memory = "0B"\nmemory-swap = "1GiB"', "memory", "not what this key holds"),
        ('ulimits = { nofil = "1:2" }', "ulimits.nofil", "not core, cpu, data,"),
        ('ulimits = { nofile = "2:1" }', "ulimits.nofile", "not what this key holds"),
        ('devices = [""]', "devices", "not what this key holds"),
        ('security-options = [""]', "security-options", "not what this key holds"),
        ('gpus = "100"', "gpus", "not what this key holds"),
    ],
)
def test_what_docker_would_refuse_or_read_otherwise_is_refused(table: str, place: str, message: str) -> None:
    text = edited(("[guard.startup]", f"[container]\n{table}\n\n[guard.startup]"))
    (problem,) = problems(text)
    assert problem.where == f"{FILE}: container.{place}"
    assert problem.message.startswith(message)


def test_a_limit_of_memory_and_swap_without_one_of_memory_is_refused_where_that_would_stand() -> None:
    text = edited(("[guard.startup]", '[container]\nmemory-swap = "1GiB"\n\n[guard.startup]'))
    ((place, message),) = set(said(text))
    assert (place, message.partition(":")[0]) == ("container.memory", "this key is missing")


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("max-num-seqs = 4", "max-num-seqs = 200000000", "max-num-seqs"),
        (
            "num_speculative_tokens = 2",
            "num_speculative_tokens = 200000000",
            "speculative-config.num_speculative_tokens",
        ),
    ],
)
def test_a_step_of_more_rows_than_graphs_can_be_for_is_refused_before_any_are_counted(
    old: str, new: str, key: str
) -> None:
    (problem,) = problems(edited((old, new)))
    assert problem.where == f"{FILE}: arguments.{key}"
    assert problem.detail[0] == "expected  max-num-seqs x (1 + drafts) of 65536 at most"


def test_a_capacity_of_thousands_of_digits_is_refused() -> None:
    text = edited(('SET = "here"', f'SPARKNET_ROCE_ALLREDUCE_CAPACITY_BYTES = "{"9" * 5000}"'))
    wrong = {one.where: one.message for one in problems(text)}
    assert wrong[f"{FILE}: environment.SPARKNET_ROCE_ALLREDUCE_CAPACITY_BYTES"]


def test_values_of_another_form_are_refused_with_what_was_expected() -> None:
    text = edited(
        ("port = 8000", 'port = "8000"'),
        ('EMPTY = ""', "EMPTY = 1"),
        ('floor = "5GiB"', 'floor = "5G"'),
        ('tuning = "tp3"', 'tuning = "tp3"\nenvironment = 1\nhost = { memory-saver = 1 }'),
    )
    found = {one.where.removeprefix(f"{FILE}: "): one.detail for one in problems(text)}
    assert found == {
        "service.port": ("expected  an integer from 1 to 65535", "got       '8000'"),
        "environment.EMPTY": ("expected  text in one line, which may be empty", "got       1"),
        "guard.startup.floor": ("expected  a size as text, as in 112GiB", "got       '5G'"),
        "shapes.triangle.environment": ("expected  a table", "got       1"),
        "shapes.triangle.host.memory-saver": ("expected  true or false", "got       1"),
    }


def test_a_date_or_a_key_that_is_no_option_is_refused() -> None:
    text = edited(("max-num-seqs = 4", 'max-num-seqs = 4\n"--flag" = true\nwhen = 2026-01-01'))
    assert said(text) == [
        ("arguments.--flag", "not the long name of an option, without its dashes"),
        ("arguments.when", "not what this key holds"),
    ]


def test_a_password_in_a_wrong_value_is_not_repeated() -> None:
    text = edited(("max-num-seqs = 4", 'max-num-seqs = 4\nurl = "https://me:secret@host/\\n"'))
    (problem,) = problems(text)
    assert "secret" not in "".join(problem.detail)


def test_nothing_shared_can_be_absent_and_nothing_can_be_removed_that_is_not_shared() -> None:
    why = '{ absent = "why" }'
    text = edited(
        ('EMPTY = ""', f'EMPTY = ""\nGONE = {why}'),
        ('method = "dspark"', f'method = "dspark", gone = {why}'),
        ('tuning = "tp3"', f'tuning = "tp3"\nenvironment = {{ OTHER = {why}, SET = {why} }}'),
    )
    assert said(text) == [
        ("arguments.speculative-config.gone", "only a shape can remove something, which all shapes share"),
        ("environment.GONE", "only a shape can remove something, which all shapes share"),
        ("shapes.triangle.environment.OTHER", "nothing that the shapes share is there to be removed"),
    ]


def test_what_is_missing_is_named_where_it_would_stand() -> None:
    text = edited(
        ('cabling = "triangle"\n', ""),
        ("master-port = 9999\n", ""),
        ("wait = 120\n", ""),
        ('tuning = "tp3"', 'tuning = "tp3"\n[shapes.triangle.mounts.extra]\nsource = "/a"'),
    )
    missing = {where for where, message in said(text) if message == "this key is missing"}
    assert missing == {
        "service.master-port",
        "guard.startup.wait",
        "shapes.triangle.cabling",
        "shapes.triangle.mounts.extra.target",
        "shapes.triangle.mounts.extra.mode",
    }


def test_keys_at_the_top_that_are_missing_are_all_named() -> None:
    found = said("")
    assert sorted(where for where, _ in found) == ["default-shape", "format", "image", "service", "shapes"]
    assert {message for _, message in found} == {"this key is missing"}


def test_another_format_is_refused() -> None:
    assert said(edited(("format = 1", "format = 2"))) == [("format", "not what this key holds")]


def test_a_default_that_is_no_shape_is_refused() -> None:
    assert said(edited(('default-shape = "ring"', 'default-shape = "square"'))) == [
        ("default-shape", "no such shape in this recipe")
    ]


def test_faults_of_the_recipe_and_of_the_fabric_are_told_together() -> None:
    others = files(edited(("port = 8000", "port = 0")), {"fabric/tuning/tp3.toml": b"format = 2"})
    _, found = read_recipe(others, "small")
    assert {one.where.partition(":")[0] for one in found} == {FILE, "fabric/tuning/tp3.toml"}


def test_layout_and_promotion_are_not_in_the_digest_and_everything_else_is() -> None:
    digest = loaded().digest()
    again = SMALL.replace("\n\n", "\n\n# a comment\n\n") + '[promotion]\nbranch = "main"\n'
    again += "[shapes.triangle.promotion]\nlaunch-enabled = false\n"
    assert loaded(again).digest() == digest
    assert loaded(edited(('EMPTY = ""\n', ""))).digest() != digest
    assert loaded(edited(("wait = 120", "wait = 121"))).digest() != digest


def test_the_document_of_a_recipe_holds_decimals_as_they_were_typed() -> None:
    recipe = loaded(edited(("max-num-seqs = 4", "max-num-seqs = 4\nutilization = 0.820")))
    shared = recipe.document()["shared"]
    assert isinstance(shared, dict)
    arguments: Json = shared["arguments"]
    assert isinstance(arguments, dict)
    assert arguments["utilization"] == {"decimal": "0.820"}
