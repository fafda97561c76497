# SPDX-License-Identifier: Apache-2.0
"""What a node remembers of a service, as the document that lies on it.

Core: no IO.
"""

from __future__ import annotations

from typing import Any

from derive.canonical import Digest, Json
from derive.deploy.model import Aside, Before, NodeState, Served, Stood
from derive.errors import Corrupt, expected_got

STATE_TAG = "deploy-state/1"
ODD = (TypeError, KeyError, ValueError, AttributeError, OverflowError)
"""What reading a document raises that is none of ours, whatever stands in its places."""
_LATEST_S = 253_402_300_799
"""The end of the year 9999."""


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
            service=text_of({STATE_TAG: document["service"]}[document["derive"]]),
            deploy=text_of(document["deploy"]),
            step=text_of(document["step"]),
            wanted=_served_or_none(document["wanted"]),
            current=_served_or_none(document["current"]),
            healthy=tuple(parse_served(served) for served in document["healthy"]),
            at_s=_second(document["at_s"]),
            before=None if document["before"] is None else _before(document["before"]),
        )
    except ODD as error:
        got = f"no {error}" if isinstance(error, KeyError) else str(error)
        hint = "deploy again: what runs is read from the engine, and the state is written anew"
        raise Corrupt(
            "not the state of a service", where=where, detail=expected_got(STATE_TAG, got), hint=hint
        ) from error


def parse_served(value: Json) -> Served:
    """Read what :meth:`Served.document` gives; one of :data:`ODD` for anything else."""
    document: Any = value
    return Served(
        release=text_of(document["release"]),
        release_digest=_digest(document["release-digest"]),
        recipe=text_of(document["recipe"]),
        shape=text_of(document["shape"]),
        image=_digest(document["image"]),
        shape_bundle=_digest(document["shape-bundle"]),
        launch_bundle=_digest(document["launch-bundle"]),
    )


def text_of(value: object) -> str:
    """Return text that can be written again; ValueError for anything else."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text"[:120])  # noqa: TRY004 - a document is wrong, not a program
    value.encode()
    return value


def _digest(value: object) -> Digest:
    return Digest.parse(text_of(value))


def _second(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= _LATEST_S:
        raise ValueError(f"{value!r} is no time in seconds"[:120])
    return value


def _served_or_none(value: Json) -> Served | None:
    return None if value is None else parse_served(value)


def _before_document(before: Before) -> dict[str, Json]:
    return {
        "current": None if before.current is None else before.current.document(),
        "running": before.running,
        "aside": [
            {
                "kind": one.kind,
                "name": one.name,
                "running": one.running,
                "guard": one.guard,
                "restart": one.restart,
            }
            for one in before.aside
        ],
    }


def _before(document: Any) -> Before:
    return Before(
        current=_served_or_none(document["current"]),
        running=bool(document["running"]),
        aside=tuple(
            Aside(
                kind=Stood(one["kind"]).value,
                name=text_of(one["name"]),
                running=bool(one["running"]),
                guard=None if one["guard"] is None else text_of(one["guard"]),
                # Documents of an earlier derive have none.
                restart=None if one.get("restart") is None else text_of(one["restart"]),
            )
            for one in document["aside"]
        ),
    )
