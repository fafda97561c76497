# SPDX-License-Identifier: Apache-2.0
"""A deploy that was killed, or whose head lost power, wrote no record: the next one does, from what nodes remember.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from derive.deploy.history import Deployed
from derive.deploy.recovery_known import ENDS, SUPERVISED, number

if TYPE_CHECKING:
    from derive.canonical import Digest
    from derive.deploy.former import Former
    from derive.deploy.model import NodeState

UNKNOWN = "not known"
"""Who it was that deployed."""


def cut_off(former: Former, history: Sequence[Deployed], *, service: str, site: Digest) -> Deployed | None:
    """Return the record that is missing of a deploy which was cut off; None where there was none, or it has one.

    One that was interrupted and gave up going back has a record, no older than what it wrote to the nodes.
    """
    going = [state for state in former.states.values() if state is not None and _is_going(state)]
    if not going:
        return None
    last = max(going, key=lambda one: (one.at_s, number(one.step)))
    if last.wanted is None or any(one.service == service and one.at_s >= last.at_s for one in history):
        return None
    step = max((one.step for one in going if one.deploy == last.deploy), key=number)
    return Deployed(
        served=last.wanted,
        service=service,
        site=site,
        nodes=_none(former.states),
        steps=(),
        outcome="interrupted",
        why=f"cut off at the step {step}",
        former=former.served if former.starts else None,
        by=UNKNOWN,
        at_s=last.at_s,
    )


def _is_going(state: NodeState) -> bool:
    return state.step not in ENDS and not state.deploy.startswith(SUPERVISED)


def _none(states: Mapping[str, object]) -> dict[str, str | None]:
    return dict.fromkeys(states)
