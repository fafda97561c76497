# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.errors import InputErrors
from derive.wheels.entry_points import Command, parse_entry_points, script_text
from support.archives import said


def parse(text: str) -> tuple[Command, ...]:
    return parse_entry_points("w.whl", b"entry_points.txt", text.encode())


def test_console_and_graphical_commands_are_read_and_other_groups_are_not() -> None:
    text = "[pytest11]\nx = y\n[console_scripts]\nb = pkg.mod:main\n[gui_scripts]\na=pkg:App.run\n"
    assert parse(text) == (
        Command(name="a", module="pkg", attribute="App.run"),
        Command(name="b", module="pkg.mod", attribute="main"),
    )


def test_extras_are_allowed_and_names_keep_their_case() -> None:
    text = "# a remark\n[console_scripts]\nFoo-Bar.x = pkg:main [a, b]\nplain = pkg : main[]\n"
    assert [(c.name, c.attribute) for c in parse(text)] == [("Foo-Bar.x", "main"), ("plain", "main")]


def test_percent_signs_and_colons_are_plain_text() -> None:
    assert parse("[other]\nx = %(home)s\na:b = c\n[console_scripts]\n") == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[console_scripts]\nx = pkg\n", "no command can be made"),
        ("[console_scripts]\nx = pkg:main; import os\n", "no command can be made"),
        ("[console_scripts]\nx = pkg:main()\n", "no command can be made"),
        ("[console_scripts]\n../x = pkg:main\n", "no command can be made"),
        ("[console_scripts]\na/b = pkg:main\n", "no command can be made"),
        ("[console_scripts]\n.x = pkg:main\n", "no command can be made"),
        ("[console_scripts]\nx = pkg:main\n  more\n", "no command can be made"),
        ("[console_scripts]\nx = a:b\n[gui_scripts]\nx = c:d\n", "declared twice"),
        ("[console_scripts]\nx = a:b\nx = c:d\n", "cannot be read"),
        ("x = a:b\n", "cannot be read"),
    ],
)
def test_what_can_be_no_command_is_refused(text: str, why: str) -> None:
    with pytest.raises(InputErrors) as caught:
        parse(text)
    assert why in said(caught.value)


def test_a_file_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(InputErrors):
        parse_entry_points("w.whl", b"entry_points.txt", b"\xff")


def test_the_script_is_one_stated_text() -> None:
    """These bytes are part of the builder's version: a change here is a new version of install-wheel."""
    assert script_text(Command(name="x", module="pkg.mod", attribute="App.run"), "/usr/bin/python3") == (
        b"#!/usr/bin/python3\n"
        b"import sys\n"
        b"\n"
        b"from pkg.mod import App\n"
        b"\n"
        b'if __name__ == "__main__":\n'
        b"    sys.exit(App.run())\n"
    )
