# SPDX-License-Identifier: Apache-2.0
"""What a node remembers of a service, as the document that lies on it.

Core: no IO.
"""

from __future__ import annotations

from typing import Any

from derive.canonical import Digest, Json
from derive.deploy.model import Aside, Before, NodeState, Served
from derive.errors import Corrupt, expected_got

STATE_TAG = "deploy-state/1"


def state_document(state: NodeState) -> dict[str, Json]:
    """Return the document of a state."""
    return {
        "derive": STATE_TAG,
        "service": state.service,
        "deploy": state.deploy,
        "step": state.step,
        "wanted": None if state.wanted is None else state.wanted.document(),
        "current": None if state.current is None else state.current.document(),
        "healthy": [served.document() for served in state.healthy],
        "at_s": state.at_s,
        "before": None if state.before is None else _before_document(state.before),
    }


def parse_state(value: Json, where: str) -> NodeState:
    """Read the document of a state.

    Raises:
        Corrupt: when it is none.
    """
    try:
        document: Any = value
        return NodeState(
            service=str({STATE_TAG: document["service"]}[document["derive"]]),
            deploy=str(document["deploy"]),
            step=str(document["step"]),
            wanted=_served_or_none(document["wanted"]),
            current=_served_or_none(document["current"]),
            healthy=tuple(parse_served(served) for served in document["healthy"]),
            at_s=int(document["at_s"]),
            before=None if document["before"] is None else _before(document["before"]),
        )
    except (TypeError, KeyError, ValueError) as error:
        got = f"no {error}" if isinstance(error, KeyError) else str(error)
        hint = "deploy again: what runs is read from the engine, and the state is written anew"
        raise Corrupt(
            "not the state of a service", where=where, detail=expected_got(STATE_TAG, got), hint=hint
        ) from error


def parse_served(value: Json) -> Served:
    """Read what :meth:`Served.document` gives; KeyError, TypeError or ValueError for anything else."""
    document: Any = value
    return Served(
        release=str(document["release"]),
        release_digest=Digest.parse(document["release-digest"]),
        recipe=str(document["recipe"]),
        shape=str(document["shape"]),
        image=Digest.parse(document["image"]),
        shape_bundle=Digest.parse(document["shape-bundle"]),
        launch_bundle=Digest.parse(document["launch-bundle"]),
    )


def _served_or_none(value: Json) -> Served | None:
    return None if value is None else parse_served(value)


def _before_document(before: Before) -> dict[str, Json]:
    return {
        "current": None if before.current is None else before.current.document(),
        "running": before.running,
        "aside": [
            {"kind": one.kind, "name": one.name, "running": one.running, "guard": one.guard} for one in before.aside
        ],
    }


def _before(document: Any) -> Before:
    return Before(
        current=_served_or_none(document["current"]),
        running=bool(document["running"]),
        aside=tuple(
            Aside(
                kind=str(one["kind"]),
                name=str(one["name"]),
                running=bool(one["running"]),
                guard=None if one["guard"] is None else str(one["guard"]),
            )
            for one in document["aside"]
        ),
    )
