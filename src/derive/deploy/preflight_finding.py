# SPDX-License-Identifier: Apache-2.0
"""What is found about a node before a launch, and what each rule about it is given.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from derive.canonical import Json
from derive.deploy.consents import Consent, Foreign, Running, is_up
from derive.deploy.machine_values import Machine
from derive.deploy.model import Container, Target
from derive.errors import Problem
from derive.fabric.rule import SiteInput
from derive.fabric.site import Node
from derive.render.launch import Launch

Severity: TypeAlias = Literal["error", "warn"]
NOTHING_KNOWN = "host.facts"
"""The finding of a machine that was never asked, or does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about a node that stands against a deploy (``error``), or that one should know (``warn``).

    ``node`` is empty where it is about all of them; ``message`` a lower-case fragment, ``detail`` aligned lines,
    ``fix`` one next step.
    """

    node: str
    id: str
    severity: Severity
    message: str
    detail: tuple[str, ...] = ()
    fix: str | None = None

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {
            "node": self.node or None,
            "id": self.id,
            "severity": self.severity,
            "message": self.message,
            "detail": list(self.detail),
            "fix": self.fix,
        }

    def problem(self) -> Problem:
        """Return it as a problem, whose place is the node."""
        return Problem(where=self.node or "all nodes", message=self.message, detail=self.detail, hint=self.fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneNode:
    """What a rule about a node is given.

    ``containers`` is None where nobody looked at what runs now: what changes from minute to minute is not judged then.
    ``in_the_way`` is what a deploy ends there for what it has, and ``others`` names all that it ends beside the
    service's own container. ``move_bytes`` is None where it is unknown. ``hosts`` is what each machine calls itself, by
    node.
    """

    target: Target
    site: SiteInput
    node: Node
    launch: Launch
    machine: Machine
    containers: Sequence[Container] | None
    in_the_way: Running
    move_bytes: int | None
    consents: Collection[Consent]
    others: Collection[str] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)

    def ending(self) -> tuple[Container, ...]:
        """Return the containers that run and that the deploy ends: what they have of the machine, it gets."""
        foreign = [one.container.name for one in self.in_the_way if isinstance(one, Foreign)]
        ended = {self.target.service, *foreign, *self.others}
        return tuple(one for one in self.containers or () if one.name in ended and is_up(one))

    def error(self, check: str, message: str, detail: tuple[str, ...] = (), fix: str | None = None) -> Finding:
        """Return a finding that stands against the deploy."""
        return Finding(node=self.node.name, id=check, severity="error", message=message, detail=detail, fix=fix)

    def warn(self, check: str, message: str, detail: tuple[str, ...] = (), fix: str | None = None) -> Finding:
        """Return a finding that does not."""
        return Finding(node=self.node.name, id=check, severity="warn", message=message, detail=detail, fix=fix)


Machines: TypeAlias = Mapping[str, Machine]
