# SPDX-License-Identifier: Apache-2.0
"""A tuning profile as rows: every setting that can be tuned, with its value or without; and a new profile's text.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.errors import InputErrors
from derive.fabric.transports import Fabric, Tunable, Tuning

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
        InputErrors: when a setting is none that can be tuned.
    """
    nccl, engines = dict(base.nccl), {key: dict(values) for key, values in base.engines.items()}
    transports = {key: dict(values) for key, values in base.transports.items()}
    for setting, value in given.items():
        if setting not in fabric.tunable:
            raise _unknown(setting, fabric)
        engine = fabric.tunable[setting].engine
        target = nccl if engine is None else engines.setdefault(engine, {})
        target[setting] = value
        for values in transports.values():
            values.pop(setting, None)
        if not value:
            del target[setting]
    lines = [f"# Made from {base.name} with: {' '.join(f'{key}={value}' for key, value in sorted(given.items()))}", ""]
    lines += ["format = 1", f'doc = "{_escaped(base.doc)}"', f"nodes = {base.nodes}"]
    tables = [("nccl", nccl), *((f"engines.{key}", values) for key, values in sorted(engines.items()))]
    tables += [(f"transports.{key}", values) for key, values in sorted(transports.items())]
    for scope, values in tables:
        if values:
            lines += ["", f"[{scope}]", *(f'{key} = "{_escaped(value)}"' for key, value in sorted(values.items()))]
    return "\n".join(lines) + "\n"


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


def _unknown(setting: str, fabric: Fabric) -> InputErrors:
    from difflib import get_close_matches

    required = any(setting in one.settings for one in fabric.transports.values())
    near = get_close_matches(setting, sorted(fabric.tunable), n=1)
    if required:
        message, hint = f"{setting} is required by transports, and not to be tuned", None
    else:
        message = f"{setting} is no setting that can be tuned"
        hint = f"did you mean {near[0]}?" if near else "fabric/settings.toml lists what can be"
    return InputErrors.one(message, where=setting, hint=hint)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
