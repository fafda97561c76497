# SPDX-License-Identifier: Apache-2.0
"""What a node's program answers when it does not do an effect, and what its silence means, as errors.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from derive.deploy.lease import Lease, parse_lease
from derive.deploy.node_errors import EffectFailed, Fenced, LeaseHeld, NodeError

_LINES = 3
_NOT_FOUND = 127


def refusal(node: str, effect: str, said: Mapping[str, Any]) -> NodeError:
    """Return the error for a refusal, by its kind."""
    kind, message, hint, detail = str(said["kind"]), str(said["message"]), said["hint"], tuple(said["detail"])
    if kind == "lease-held":
        held = LeaseHeld(message, node=node, effect=effect, detail=detail, hint=hint)
        held.holder = _lease(said["data"], node)
        return held
    if kind == "fenced":
        fenced = Fenced(message, node=node, effect=effect, detail=detail, hint=hint)
        fenced.holder = _lease(said["data"], node)
        return fenced
    failed = EffectFailed(message, node=node, effect=effect, detail=detail, hint=hint or _SEE)
    failed.kind = kind
    return failed


_SEE = "look at the node, then ask again: what was done is not done twice"


def _lease(value: Any, node: str) -> Lease | None:
    return None if value is None else parse_lease(value, node)


def no_answer(node: str, effect: str, *, code: int, out: bytes, err: bytes, sudo: bool) -> EffectFailed:
    """Return the error for a program that ended without an answer."""
    said = err.decode(errors="replace").strip().splitlines() or out.decode(errors="replace").strip().splitlines()
    detail = tuple(said[-_LINES:])
    text = "\n".join(said)
    if code == _NOT_FOUND and "python3" in text:
        kind, message, hint = "no-python", "there is no python3", "sudo apt-get install python3-minimal"
    elif sudo and "sudo" in text:
        kind, message = "no-sudo", "sudo asks for a password, or refuses"
        hint = "allow the user of SSH sudo without a password: visudo -f /etc/sudoers.d/derive"
    else:
        kind, message = "no-answer", f"the program ended with {code} and gave no answer"
        hint = "ask again; whatever was done is not done twice"
    failed = EffectFailed(message, node=node, effect=effect, detail=detail, hint=hint)
    failed.kind = kind
    return failed
