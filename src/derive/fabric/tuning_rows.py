# SPDX-License-Identifier: Apache-2.0
"""A tuning profile as rows: every setting that can be tuned, with its value or without; and a new profile's text.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.errors import InputErrors, Problem, expected_got
from derive.fabric.transports import Fabric, Tunable, Tuning
from derive.fabric.tuning import unknown_setting
from derive.recipes.check import shown
from derive.recipes.forms import VALUE
from derive.toml_text import toml_line

if TYPE_CHECKING:
    from derive.canonical import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting in one scope; ``value`` is None where the profile leaves it."""

    name: str
    scope: str
    value: str | None
    default: str
    meaning: str
    needs: str | None

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {
            "setting": self.name,
            "for": self.scope,
            "value": self.value,
            "default": self.default,
            "meaning": self.meaning,
            "needs": self.needs,
        }


def rows(tuning: Tuning, fabric: Fabric) -> list[Row]:
    """Return the rows of a profile: what it sets first, by scope, then what it leaves."""
    found = [
        _row(scope, fabric.tunable[name], value)
        for scope, values in _scopes(tuning)
        for name, value in sorted(values.items())
        if name in fabric.tunable
    ]
    said = {row.name for row in found}
    left = [one for name, one in sorted(fabric.tunable.items()) if name not in said]
    return found + [_row(one.engine or "nccl", one, None) for one in left if one.nodes in (None, tuning.nodes)]


def created_text(base: Tuning, given: Mapping[str, str], fabric: Fabric) -> str:
    """Return the text of a profile like another but for some settings; the empty text leaves a setting out.

    Raises:
        InputErrors: with every setting that is none that can be tuned, or whose value is not text in one line.
    """
    _refuse(given, fabric)
    nccl, engines = dict(base.nccl), {key: dict(values) for key, values in base.engines.items()}
    transports = {key: dict(values) for key, values in base.transports.items()}
    for setting, value in given.items():
        engine = fabric.tunable[setting].engine
        target = nccl if engine is None else engines.setdefault(engine, {})
        target[setting] = value
        for values in transports.values():
            values.pop(setting, None)
        if not value:
            del target[setting]
    lines = [f"# Made from {base.name} with: {' '.join(f'{key}={value}' for key, value in sorted(given.items()))}", ""]
    lines += [toml_line("format", 1), toml_line("doc", _doc(base, given)), toml_line("nodes", base.nodes)]
    tables = [("nccl", nccl), *((f"engines.{key}", values) for key, values in sorted(engines.items()))]
    tables += [(f"transports.{key}", values) for key, values in sorted(transports.items())]
    for scope, values in tables:
        if values:
            lines += ["", f"[{scope}]", *(toml_line(key, value) for key, value in sorted(values.items()))]
    return "\n".join(lines) + "\n"


def _doc(base: Tuning, given: Mapping[str, str]) -> str:
    """Say what a profile is that was made from another: ``tp4, with NCCL_BUFFSIZE=1048576``."""
    changed = [f"with {key}={value}" if value else f"without {key}" for key, value in sorted(given.items())]
    return ", ".join([base.name, *changed]) if changed else base.doc


def _scopes(tuning: Tuning) -> Iterator[tuple[str, Mapping[str, str]]]:
    yield "nccl", tuning.nccl
    yield from sorted(tuning.engines.items())
    yield from sorted(tuning.transports.items())


def _row(scope: str, tunable: Tunable, value: str | None) -> Row:
    return Row(
        name=tunable.name,
        scope=scope,
        value=value,
        default=tunable.default,
        meaning=tunable.meaning,
        needs=tunable.needs,
    )


def _refuse(given: Mapping[str, str], fabric: Fabric) -> None:
    problems = []
    for setting, value in given.items():
        if setting not in fabric.tunable:
            problems.append(unknown_setting(setting, setting, fabric))
        elif not VALUE.accepts(value):
            detail = expected_got(VALUE.expects, shown(value))
            problems.append(Problem(where=setting, message="a value that no variable can have", detail=detail))
    if problems:
        raise InputErrors(problems)
