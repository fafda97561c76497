# SPDX-License-Identifier: Apache-2.0
"""Entry points that become commands, and the text of the command: always the same for the same entry point.

Core: no IO.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from derive.archives.names import refused

GROUPS = ("console_scripts", "gui_scripts")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_REFERENCE = re.compile(rf"(?P<module>{_DOTTED})\s*:\s*(?P<attribute>{_DOTTED})\s*(?:\[(?P<extras>[\w\s,.-]*)\])?")

_TEMPLATE = """\
#!{interpreter}
import sys

from {module} import {first}

if __name__ == "__main__":
    sys.exit({attribute}())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that a wheel declares. Extras after the reference are allowed and mean nothing here."""

    name: str
    module: str
    attribute: str


def parse_entry_points(archive: str, path: bytes, data: bytes) -> tuple[Command, ...]:
    """Return the commands of an ``entry_points.txt``, console and graphical ones alike, sorted by name.

    Raises:
        InputErrors: when the file cannot be read, or a command has no usable name or reference, or comes twice.
    """
    import configparser

    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, default_section="")
    parser.optionxform = str  # type: ignore[method-assign, assignment]  # names keep their case
    try:
        parser.read_string(data.decode("utf-8"))
    except (UnicodeDecodeError, configparser.Error) as error:
        raise refused(archive, path, f"entry points that cannot be read: {error}") from error
    found: dict[str, Command] = {}
    for group in GROUPS:
        for name, reference in parser.items(group) if parser.has_section(group) else ():
            match = _REFERENCE.fullmatch(reference.strip())
            if not _NAME.fullmatch(name) or match is None:
                raise refused(archive, path, f"no command can be made of the entry point {name} = {reference}")
            if name in found:
                raise refused(archive, path, f"the command {name} is declared twice")
            found[name] = Command(name=name, module=match["module"], attribute=match["attribute"])
    return tuple(found[name] for name in sorted(found))


def script_text(command: Command, interpreter: str) -> bytes:
    """Return the script of a command."""
    first = command.attribute.partition(".")[0]
    text = _TEMPLATE.format(interpreter=interpreter, module=command.module, first=first, attribute=command.attribute)
    return text.encode("utf-8")
