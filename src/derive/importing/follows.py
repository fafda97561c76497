# SPDX-License-Identifier: Apache-2.0
"""Which arguments and variables nobody types in a recipe: those that its rules give, and those that a site says.

Core: no IO.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from derive.canonical import Json
from derive.fabric.transports import Fabric
from derive.recipes.rules import rules_for
from derive.recipes.transport import gifts

_SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|API_KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)$")
HIDDEN = "looks like a secret, which no recipe holds: recipes are in version control"


def is_secret(name: str, value: Json) -> bool:
    """Say whether a variable or option of this name seems to hold a secret; a number or an empty text is none."""
    named = _SECRET.search(name.upper().replace("-", "_")) is not None
    return named and isinstance(value, str) and value != "" and not value.isdecimal()


@cache
def derived() -> dict[tuple[str, ...], str]:
    """Return each path that a rule gives, with the rule's id."""
    return {
        path: rule.id for rule in rules_for("vllm") for path in rule.gives if path[0] in ("arguments", "environment")
    }


@cache
def of_nodes() -> frozenset[tuple[str, ...]]:
    """Return the paths whose values are each node's own."""
    return frozenset(path for rule in rules_for("vllm") if rule.derive is None for path in rule.gives)


def site_key(variable: str) -> str | None:
    """Return the key of a site that says a variable on every node; None where the site does not."""
    if variable.endswith("_SOCKET_IFNAME"):
        return "interface"
    if ("environment", variable) not in of_nodes():
        return None
    if variable.endswith("_GID_INDEX"):
        return "gid-index"
    return "nodes[].address" if variable == "VLLM_HOST_IP" else "cables"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a shape's transport, kernel backend and tuning profile give: each path with what gives it."""

    paths: Mapping[tuple[str, ...], str]
    tuning: str | None

    def rule(self, *path: str) -> str | None:
        """Return what gives a value, of these or of the rules of recipes; None where it is typed."""
        found = self.paths.get(path)
        if found is None and path in derived():
            return f"rule {derived()[path]}"
        return found


def given_by(fabric: Fabric, tables: Mapping[str, Json], nodes: int, said: Mapping[str, Json]) -> Given:
    """Return what follows from a shape's choices; the tuning profile is the longest all of whose values were said."""
    chosen = fabric.transports.get(str(tables["transport"]))
    profiles = {
        name: {variable: value for _, variable, value in profile.values(chosen)}
        for name, profile in sorted(fabric.tunings.items())
        if chosen is not None and profile.nodes == nodes
    }
    fitting = {name: values for name, values in profiles.items() if values and values.items() <= said.items()}
    tuning = max(fitting, key=lambda name: (len(fitting[name]), name), default=None)
    asked: dict[str, Json] = {"kernel-backend": "b12x", **tables, "arguments": {"speculative-config": {}}}
    if tuning is not None:
        asked["tuning"] = tuning
    paths = {gift.path: (gift.origin.inputs or (gift.origin.key,))[0] for gift in gifts(fabric, asked)}
    return Given(paths=paths, tuning=tuning)
