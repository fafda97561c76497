# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from derive.cli.main import COMMANDS, EXIT_CODES, main, make_parser
from support.cli import CHECKOUT, environment


def modules_after(*arguments: str) -> set[str]:
    """Return what a command line imports."""
    code = (
        "import sys\nfrom derive.cli.main import main\n"
        f"try: main({list(arguments)!r})\nexcept SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_every_command_has_a_module_with_examples_arguments_and_a_run() -> None:
    for name in COMMANDS:
        module = import_module(f"derive.cli.{name}")
        assert f"  derive {name}" in module.EXAMPLES
        assert callable(module.add_arguments)
        assert callable(module.run)


def test_the_page_has_every_command_and_every_exit_code() -> None:
    page = (CHECKOUT / "docs" / "cli.md").read_text()
    for name in COMMANDS:
        assert f"| `derive {name}" in page
    for line in EXIT_CODES.splitlines()[1:]:
        code, _, meaning = line.strip().partition(" ")
        assert f"| {code} | {meaning.strip()} |" in page


def test_the_version_imports_neither_argparse_nor_anything_heavy() -> None:
    loaded = modules_after("--version")
    assert not loaded & {"argparse", "pydantic", "requests", "rich", "sqlite3", "derive.cli.console"}


def test_only_the_command_at_hand_is_imported() -> None:
    loaded = modules_after("plan", "--help")
    assert "derive.cli.plan" in loaded
    assert not loaded & {"derive.cli.show", "derive.cli.build", "pydantic", "requests", "rich"}


def test_options_of_every_command_stand_before_or_after_it() -> None:
    before = make_parser(["--store", "x", "plan"]).parse_args(["--store", "x", "plan"])
    after = make_parser(["plan", "--store", "x"]).parse_args(["plan", "--store", "x"])
    assert before.store == after.store == "x"


def test_an_operand_that_is_a_command_s_name_is_an_operand() -> None:
    arguments = ["show", "image"]
    parsed = make_parser(arguments).parse_args(arguments)
    assert (parsed.command, parsed.operand) == ("show", "image")


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", ""])
def test_jobs_are_a_whole_number_above_0(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["plan", f"--jobs={text}"])
    assert caught.value.code == 2
    assert "not a whole number above 0" in capsys.readouterr().err
