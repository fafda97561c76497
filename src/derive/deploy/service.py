# SPDX-License-Identifier: Apache-2.0
"""What the commands that deploy share: from what a person asked to a plan, and from a plan to a deploy.

Edge: the project, the site's file, the operator's folder, the nodes, the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from derive.deploy import policy
from derive.deploy.again import Again
from derive.deploy.consents import Consent
from derive.deploy.deploys import read_deploys
from derive.deploy.kept import Kept
from derive.deploy.planning import Asked, planned
from derive.deploy.refused import Refused
from derive.deploy.standing import standing
from derive.deploy.target import SITE_HINT, Aimed, aim
from derive.errors import DeriveError, InputErrors, Missing
from derive.fabric.places import find_site, read_site
from derive.render.chosen import Chosen

if TYPE_CHECKING:
    from derive.deploy.conduct import Ended
    from derive.deploy.history import Deployed
    from derive.deploy.model import Served, Target
    from derive.deploy.plan import Plan
    from derive.deploy.reach import Reach
    from derive.deploy.work import Work
    from derive.fabric.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person asked for, as typed. ``branch`` is what counts as published, None for the usual one.

    ``only_ahead``: image and files are brought, and nothing that serves is touched.
    """

    root: Path
    store: Path
    environ: Mapping[str, str]
    release: str
    shape: str | None
    site: str | None
    consents: frozenset[Consent]
    branch: str | None = None
    adopt: str | None = None
    only_ahead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A wish, with all that is known of it before any node is asked."""

    wish: Wish
    aimed: Aimed
    asked: Asked
    kept: Kept
    absent: DeriveError | None = None
    """Why the image is not to be had from the store, None where it is."""


def prepare(wish: Wish) -> Prepared:
    """Render what is to run, and read what the project and the operator's folder say of it.

    Raises:
        InputErrors, CheckFailed, Missing: as :func:`derive.deploy.target.aim` and the records' readers do.
    """
    aimed = aim(wish.root, wish.release, Chosen(shape=wish.shape, site=wish.site), wish.environ, wish.store)
    kept = Kept.of(aimed.site.site.name, wish.environ)
    experiment = Consent.EXPERIMENT in wish.consents
    history, notes = recorded(kept)
    release, served = aimed.known.release, aimed.target.served
    name = next((one.name for one in release.images.values() if one.digest == served.image), release.default_image)
    absent = absent_image(wish.store, served, name, aimed.target.bundle.resolved.platform)
    asked = Asked(
        target=aimed.target,
        site=aimed.site,
        standing=standing(wish.root, aimed, int(time.time()), branch=wish.branch, experiment=experiment),
        history=history,
        consents=wish.consents,
        adopt=wish.adopt,
        notes=(*aimed.notes, *notes),
        only_ahead=wish.only_ahead,
        lacks=() if absent is None else absent.problems(),
        again=Again(site=wish.site, published=wish.branch, adopt=wish.adopt, consents=wish.consents),
    )
    return Prepared(wish=wish, aimed=aimed, asked=asked, kept=kept, absent=absent)


def absent_image(store: Path, served: Served, name: str, platform: str) -> DeriveError | None:
    """Return that the store does not hold an image whole, with what brings it; None where it does.

    ``name`` is what the release calls the image. A deploy takes the guard, too, out of it, so that it must be here also
    where every node has it.
    """
    from derive.deploy.stored_image import stored_image
    from derive.store.local import LocalStore

    try:
        with LocalStore(store, reading=True) as opened:
            stored_image(opened, served.image)
    except Missing as error:
        hint = (
            f"derive it: derive image {name} --platform {platform}; "
            f"or bring it: derive pull REPOSITORY@{served.image} --platform {platform}"
        )
        where, detail = f"release:{served.release}", error.problems()[0].detail
        return Missing(f"the store does not hold its image {served.image}", where=where, detail=detail, hint=hint)
    except DeriveError as error:
        return error
    return None


def recorded(kept: Kept) -> tuple[tuple[Deployed, ...], tuple[str, ...]]:
    """Return the deploys that are recorded; records that cannot be read tell no times, and stand against nothing."""
    try:
        return read_deploys(kept.folder), ()
    except DeriveError as error:
        one = error.problems()[0]
        return (), (f"the records of deploys cannot be read: {one.where}: {one.message}",)


def plan_stored(prepared: Prepared) -> Plan:
    """Return the plan by what was last seen of the machines; no node is touched."""
    from derive.deploy.seeing import stored

    return planned(prepared.asked, stored(prepared.asked.target, prepared.kept))


async def plan_seen(prepared: Prepared) -> tuple[Plan, tuple[DeriveError, ...]]:
    """Return the plan by what the nodes say now; by what was last seen where they cannot all be asked, and why not.

    Nothing is changed on any node.
    """
    from derive.deploy.reach import reach
    from derive.deploy.seeing import look

    target = prepared.asked.target
    async with reach(prepared.aimed.site.site, require_all=False) as reached:
        if reached.unreachable:
            return plan_stored(prepared), tuple(reached.unreachable.values())
        looked = await look(reached, target, prepared.kept, int(time.time()), again=prepared.asked.again)
        if looked.failed:
            return plan_stored(prepared), tuple(looked.failed.values())
        seen = looked.seen
        if prepared.absent is None:
            seen = replace(seen, moves=await moves_of(reached, target, prepared.wish.store))
    return planned(prepared.asked, seen), ()


async def moves_of(reached: Reach, target: Target, store: Path) -> dict[str, int | None]:
    """Return the bytes of the image that each node has still to get; None where a node does not say."""
    from derive.deploy.distribute import missing, sought
    from derive.store.local import LocalStore

    with LocalStore(store, reading=True) as opened:
        found = await missing(reached, sought(target, opened), opened)
    return {name: None if isinstance(one, DeriveError) else one for name, one in found.items()}


def require_local(prepared: Prepared) -> None:
    """Refuse what records, recipe or bundle refuse, and what this machine lacks for it, before any node is asked.

    Raises:
        Refused: with all of it.
        Missing, Corrupt: where nothing is in the way but that the image is not in the store.
    """
    asked = prepared.asked
    refusals = policy.refusals(asked.target, asked.standing, experiment=asked.is_experiment)
    if refusals:
        raise Refused((*refusals, *asked.lacks))
    if prepared.absent is not None:
        raise prepared.absent


async def apply(prepared: Prepared, say: Callable[[str], None], by: str, what: str) -> Ended:
    """Deploy, or only bring image and files to the nodes; how it ended is the answer.

    Raises:
        Refused, Missing, Corrupt: as :func:`require_local`, before any node is asked.
        DeriveError: when the nodes are not reached.
    """
    require_local(prepared)
    from derive.deploy.conduct import Order, conduct
    from derive.deploy.reach import reach
    from derive.deploy.told import Told
    from derive.deploy.work import Means

    known, wish = prepared.aimed.known, prepared.wish
    means = Means(
        store=wish.store,
        kept=prepared.kept,
        clock=time.monotonic_ns,
        now_s=lambda: int(time.time()),
        by=by,
        aim=lambda served: aimed_again(wish, served),
        image_facts={known.release.images[one].digest: found for one, found in known.facts.images.items()},
    )
    order = Order(
        asked=prepared.asked,
        deploy=f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{token_hex(3)}",
        what=what,
        distribute=distribute_all,
    )
    site = prepared.aimed.site.site
    told = Told.to(say, time.monotonic_ns, (node.name for node in site.nodes))
    async with reach(site) as reached:
        return await conduct(order, reached, told, means)


def aimed_again(wish: Wish, served: Served) -> Target | None:
    """Render what once ran, as it would be now; None where that is not to be had."""
    try:
        chosen = Chosen(shape=served.shape, site=wish.site)
        return aim(wish.root, str(served.release_digest), chosen, wish.environ, wish.store).target
    except DeriveError:
        return None


def site_of(environ: Mapping[str, str], named: str | None) -> Site:
    """Return the site that is meant; raises InputErrors where there is no site file, or it is wrong."""
    path = find_site(environ, named)
    if path is None:
        raise InputErrors.one("no site file: nothing says which machines are meant", hint=SITE_HINT)
    return read_site(path).site


async def distribute_all(work: Work, target: Target) -> int | None:
    """Bring a target's image to every node; returns how many bytes were moved, None where a registry moved them.

    Raises:
        DeriveError: as :func:`derive.deploy.distribute.distribute`.
    """
    from derive.deploy.distribute import distribute, moved_bytes, sought
    from derive.deploy.model import Step
    from derive.store.local import LocalStore

    step = Step.DISTRIBUTE.value

    def say(node: str, text: str) -> None:
        work.told.line(node, step, text)

    with LocalStore(work.means.store, reading=True) as store:
        wanted = sought(target, store)
        moved = await distribute(work.reach, wanted, store, say)
    return moved_bytes(moved)
