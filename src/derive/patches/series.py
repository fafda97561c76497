# SPDX-License-Identifier: Apache-2.0
"""A series is an order of patches under one licence; its comments and blank lines are nothing else.

Core: no IO.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from derive.errors import InputErrors, Problem, expected_got

SUFFIX = ".patch"

_LICENCE = re.compile(r"#\s*(licen[cs]e):\s*(.*?)\s*")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+~-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """``names`` in the order of application, without duplicates; ``licence`` a canonical SPDX expression."""

    licence: str
    names: tuple[str, ...]


def parse_series(data: bytes, *, where: str = "series") -> Series:
    """Read a quilt series file.

    Raises:
        InputErrors: with every fault found, each at ``<where>: line N``.
    """
    problems: list[Problem] = []
    licences: list[str] = []
    names: dict[str, int] = {}
    for number, row in enumerate(data.split(b"\n"), 1):
        place = f"{where}: line {number}"
        try:
            text = row.decode("utf-8")
        except UnicodeDecodeError:
            problems.append(Problem(where=place, message="not UTF-8"))
            continue
        if text.endswith("\r"):
            problems.append(Problem(where=place, message="CRLF line endings", hint="give the series LF endings"))
            break
        if match := _LICENCE.fullmatch(text.strip()):
            _take_licence(match[1], match[2], place, licences, problems)
        elif name := _take_name(text, place, problems):
            if name in names:
                problems.append(Problem(where=place, message=f"{name} a second time, first in line {names[name]}"))
            names.setdefault(name, number)
    if not licences and not any("licence" in problem.message for problem in problems):
        problems.append(
            Problem(
                where=where,
                message="no licence",
                hint="add a line '# licence: <SPDX expression>', the licence of the patches",
            )
        )
    if problems:
        raise InputErrors(problems)
    return Series(licence=licences[0], names=tuple(names))


def licence_expression(text: str) -> str:
    """Return an SPDX licence expression in its canonical spelling.

    Raises:
        ValueError: when it is none; the message says so.
    """
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        return str(canonicalize_license_expression(text))
    except InvalidLicenseExpression as error:
        raise ValueError(f"not a licence: {text!r} is no SPDX expression") from error


def _take_licence(word: str, text: str, place: str, licences: list[str], problems: list[Problem]) -> None:
    if word != "licence":
        detail = expected_got("# licence: <SPDX expression>", f"# {word}: {text}")
        problems.append(Problem(where=place, message="the licence line is spelled otherwise", detail=detail))
        return
    if licences:
        problems.append(Problem(where=place, message="a second licence line"))
        return
    try:
        licences.append(licence_expression(text))
    except ValueError as error:
        problems.append(
            Problem(where=place, message=str(error), hint="for example Apache-2.0, or GPL-2.0-only OR BSD-2-Clause")
        )


def _take_name(text: str, place: str, problems: list[Problem]) -> str | None:
    """Return the patch that a row names, None for a comment, a blank row, or a row that is refused."""
    words = re.sub(r"(^|\s)#.*", "", text).split()
    if not words:
        return None
    name, options = words[0], words[1:]
    before = len(problems)
    if "/" in name:
        problems.append(Problem(where=place, message=f"{name} is not in the folder of the series"))
    elif not _NAME.fullmatch(name) or not name.endswith(SUFFIX):
        hint = "name it NNNN-what-it-does.patch"
        problems.append(Problem(where=place, message=f"{name!r} is not the name of a patch", hint=hint))
    if options and options != ["-p1"]:
        message = f"option {' '.join(options)} after {name}"
        problems.append(
            Problem(where=place, message=message, detail=expected_got("-p1, or nothing", " ".join(options)))
        )
    return name if len(problems) == before else None
