# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a node: each error names the node, what was to be done there, and one next step.

Core: no IO.

    NodeError                       a node could not do something (exit 3)
    |- NodeUnreachable              no connection: refused, unknown host key, no key of the user's is accepted
    |- ConnectionLost               the connection ended in the middle: what was asked may or may not have been done
    |- NodeSlow                     no answer in time; likewise
    |- EffectFailed                 the node's program answered that it could not
    |- EngineRefuses                its container engine is not there, not for this user, or refused
    |- LeaseHeld                    somebody else deploys to it; ``holder`` says who
    `- Fenced                       the lease that was shown is no longer this deploy's: nothing was changed
    SeveralNodes                    errors of several nodes, all at once
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from derive.errors import DeriveError, Problem, Unavailable

if TYPE_CHECKING:
    from derive.deploy.lease import Lease


class NodeError(Unavailable):
    """A node could not do something; ``effect`` is what, by the name that it has among effects or as a program."""

    def __init__(
        self,
        message: str,
        *,
        node: str,
        effect: str | None = None,
        detail: Iterable[str] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, where=f"{node}: {effect}" if effect else node, detail=detail, hint=hint)
        self.node = node
        self.effect = effect


class NodeUnreachable(NodeError):
    """There is no connection to the node."""


class ConnectionLost(NodeError):
    """The connection ended while something was under way: it may or may not have been done, and may be repeated."""


class NodeSlow(NodeError):
    """No answer in time: it may or may not have been done. It may be repeated."""


class EffectFailed(NodeError):
    """The node answered that it could not; ``kind`` is the program's word for why."""

    kind: str = "failed"


class EngineRefuses(NodeError):
    """The node's container engine is not there, is not for this user, or refused."""


class LeaseHeld(NodeError):
    """Another deploy holds the node's lease."""

    holder: Lease | None = None


class Fenced(NodeError):
    """The lease that was shown is not the node's: another deploy has it now, or nobody. Nothing was changed."""

    holder: Lease | None = None


class SeveralNodes(Unavailable):
    """What went wrong on several nodes; ``errors`` in order of rank."""

    def __init__(self, errors: Sequence[DeriveError]) -> None:
        super().__init__(f"{len(errors)} nodes failed")
        self.errors = tuple(errors)
        self.exit_code = max(error.exit_code for error in errors)

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of every node."""
        return tuple(dict.fromkeys(problem for error in self.errors for problem in error.problems()))


def together(errors: Sequence[DeriveError]) -> DeriveError:
    """Return the one error that stands for one or more."""
    return errors[0] if len(errors) == 1 else SeveralNodes(errors)
