# SPDX-License-Identifier: Apache-2.0
"""Where a table stands in the text of a TOML document, so that it can be cut out and all else stays.

Core: no IO.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'  # up to two quotation marks may stand before the three that end it
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[{\]}\n]"
    r"|[^\[{\]}\n\"'#]+",
    re.DOTALL,
)


def without_table(text: str, path: tuple[str, str]) -> str:
    """Return a valid document without the table under the heading of a path, and without one empty line beside it.

    Comments between its keys go with it; those behind its last key, which are of what follows, stay. A document in
    which no heading names the table stays as it is.
    """
    statements = list(_statements(text))
    first = next((at for at, one in enumerate(statements) if _is_heading(one, path)), None)
    if first is None:
        return text
    after = next((at for at in range(first + 1, len(statements)) if _is_any_heading(statements[at])), len(statements))
    end = first + 1 + max((at for at, one in enumerate(statements[first + 1 : after], 1) if _says(one)), default=0)
    if end < len(statements) and not statements[end].strip():
        end += 1
    elif end == len(statements) and first and not statements[first - 1].strip():
        first -= 1
    return "".join(statements[:first] + statements[end:])


def _statements(text: str) -> Iterator[str]:
    """Yield the statements of a valid document, each with the end of its line; strings and arrays may hold many."""
    begin = depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in ("[", "{"):
            depth += 1
        elif token[0] in ("]", "}"):
            depth -= 1
        elif token[0] == "\n" and depth == 0:
            yield text[begin : token.end()]
            begin = token.end()
    if begin < len(text):
        yield text[begin:]


def _says(statement: str) -> bool:
    """Whether it is more than a comment or an empty line."""
    return not statement.lstrip().startswith("#") and bool(statement.strip())


def _is_any_heading(statement: str) -> bool:
    return statement.lstrip().startswith("[")


def _is_heading(statement: str, path: tuple[str, str]) -> bool:
    return _is_any_heading(statement) and tomllib.loads(statement) == {path[0]: {path[1]: {}}}
