# SPDX-License-Identifier: Apache-2.0
"""Which release a rollback brings: the newest that every node was well with, and that is not the current one.

Edge: the site's file, the operator's folder, the nodes.

The nodes remember it themselves; records of deploys, which another operator's folder may lack, count where nodes cannot
be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.deploy.effects import read_states
from derive.deploy.history import last_healthy
from derive.deploy.kept import Kept
from derive.deploy.node_errors import together
from derive.deploy.reach import reach
from derive.deploy.recovery_known import Known
from derive.deploy.services import only_one
from derive.errors import DeriveError, InputErrors

if TYPE_CHECKING:
    from derive.deploy.history import Deployed
    from derive.deploy.model import NodeState, Served
    from derive.fabric.site import Site

States = Mapping[str, Mapping[str, "NodeState | None"]]
"""What nodes remember: by service, by node in order of rank."""


@dataclass(frozen=True, slots=True)
class Good:
    """The release, and how it is known."""

    served: Served
    how: str


async def last_good(site: Site, environ: Mapping[str, str], service: str | None) -> Good:
    """Ask the nodes which release that is; where not all of them answer, the operator's records say.

    Raises:
        InputErrors: when there is no such service, several of which none is named, or no such release.
        NodeError, SeveralNodes: when nodes cannot be asked, and the records do not say either.
    """
    try:
        states = await _states(site)
    except DeriveError as error:
        return _recorded_instead(Kept.of(site.name, environ), service, error)
    return Good(remembered_good(states, service), "as the nodes remember")


def _recorded_instead(kept: Kept, service: str | None, error: DeriveError) -> Good:
    """Return what the operator's records say; where they do not, raise what keeps the nodes from being asked.

    Another operator may have deployed, so that what is not recorded here is not known to be nowhere.
    """
    try:
        history = kept.deploys()
    except DeriveError as trouble:
        raise together((*getattr(error, "errors", (error,)), trouble)) from error
    services = sorted({one.service for one in history})
    if service is None and len(services) > 1:
        only_one(None, services)
    try:
        served = recorded_good(history, service)
    except InputErrors:
        raise error from None
    why = error.problems()[0]
    return Good(served, f"as recorded here: {why.where or 'a node'} cannot be asked: {why.message}")


async def _states(site: Site) -> States:
    async with reach(site) as reached:
        found = await reached.all_of(lambda node: read_states(node, site.folder))
    services = {service for states in found.values() for service in states}
    return {
        service: {name: states[service].state if service in states else None for name, states in found.items()}
        for service in services
    }


def remembered_good(states: States, service: str | None) -> Served:
    """Return it from what nodes remember; raises as :func:`last_good`."""
    name = only_one(service, sorted(states))
    return _required(Known(service=name, nodes=(), states=states[name]).former)


def recorded_good(history: tuple[Deployed, ...], service: str | None) -> Served:
    """Return it from records of deploys; raises as :func:`last_good`."""
    name = only_one(service, sorted({one.service for one in history}))
    mine = [one for one in history if one.service == name]
    return _required(last_healthy(mine, _running(mine[-1]), service=name))


def _required(found: Served | None) -> Served:
    if found is None:
        raise InputErrors.one("no other release ran well here before", hint="name one: derive deploy RELEASE")
    return found


def _running(last: Deployed) -> Served | None:
    """Return what a deploy left running; None where it could not go back."""
    if last.outcome == "failed":
        return None
    return last.served if last.outcome == "done" else last.former
