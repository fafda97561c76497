# SPDX-License-Identifier: Apache-2.0
"""Whether a release may be deployed at all: what its records, its recipe and its own bundle say; no node is asked.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.deploy.consents import Qualified
from derive.errors import Problem, expected_got
from derive.releases.policy import Newer, may_deploy
from derive.releases.state import open_waivers, shape_state

if TYPE_CHECKING:
    from derive.deploy.model import Target
    from derive.recipes.resolved import Promotion
    from derive.records.chain import Chain
    from derive.releases.document import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is known of a release beside its bundle.

    ``promotion`` is what the recipe in the working tree says of the shape now, None where it has no such shape: then
    what the release says counts. ``branch`` is the remote's branch that counts as published, None where nobody named
    one, and ``published`` what it has, as :func:`derive.releases.policy.may_deploy` takes it. ``now_s`` in seconds
    since 1970.
    """

    chain: Chain
    release: Release
    promotion: Promotion | None
    published: bool | Newer | None
    now_s: int
    branch: str | None


def refusals(target: Target, standing: Standing, *, experiment: bool = False) -> tuple[Problem, ...]:
    """Return everything that refuses a deploy here, whatever is consented to; nothing where it may be."""
    served = target.served
    named = experiment or standing.branch is not None
    found = [
        *may_deploy(
            standing.chain,
            served.release,
            served.shape,
            "experiment" if experiment else "production",
            now_s=standing.now_s,
            published=standing.published if named else True,
        ),
        *(() if named else (_UNNAMED,)),
        *_enabled(target, standing),
        *_same(target, standing),
        *_deployable(target, standing),
        *_place(target),
    ]
    return tuple(dict.fromkeys(found))


_UNNAMED = Problem(
    where="pyproject.toml: tool.derive.deploy.published-branch",
    message="no branch is named on which records count as published",
    hint='write it there, in no digest: [tool.derive.deploy], then published-branch = "origin/main"; '
    "or say it once: --published origin/main; or deploy by the policy for experiments: --experiment",
)


def qualified(target: Target, standing: Standing) -> Qualified:
    """Return whether the shape is promoted, and the reasons of what was waived for it."""
    served = target.served
    candidate = standing.chain.candidate(served.release)
    if candidate is None:
        return Qualified(promoted=False)
    state = shape_state(standing.chain, candidate, served.shape).state
    waived = open_waivers(standing.chain, served.release, served.shape)
    return Qualified(promoted=state == "promoted", waived=tuple(one.reason for one in waived))


def _where(target: Target) -> str:
    return f"recipes/{target.served.recipe}.toml: shapes.{target.served.shape}"


def _enabled(target: Target, standing: Standing) -> Iterator[Problem]:
    """Yield that the recipe does not let it be launched: as it stands now, where it still has the shape."""
    promotion = standing.promotion or target.bundle.resolved.promotion
    if not promotion.launch_enabled:
        yield Problem(
            where=f"{_where(target)}.promotion.launch-enabled",
            message="the recipe does not let it be launched",
            hint="set it to true, or take it away: promotion keys are in no digest",
        )


def _same(target: Target, standing: Standing) -> Iterator[Problem]:
    """Yield in what the bundle to be deployed is not the release's."""
    served, release = target.served, standing.release
    where = f"release:{served.release}"
    shape = release.shapes.get(served.shape)
    if shape is None:
        names = ", ".join(sorted(release.shapes))
        yield Problem(where=where, message=f"it has no shape {served.shape!r}", hint=f"it has {names}")
        return
    if release.digest != served.release_digest:
        detail = expected_got(served.release_digest, release.digest)
        yield Problem(where=where, message="its document has another digest", detail=detail, hint=_VERIFY)
    if shape.bundle != target.bundle.shape:
        detail = expected_got(shape.bundle, target.bundle.shape)
        message = f"{served.shape} renders to another bundle than was released"
        hint = f"its engine was {release.engine.version}: render with that one, or audit it: derive audit"
        yield Problem(where=where, message=message, detail=detail, hint=hint)
    if served.image not in [one.digest for one in release.images.values()]:
        detail = expected_got(", ".join(sorted(str(one.digest) for one in release.images.values())), served.image)
        yield Problem(where=where, message="it has no such image", detail=detail, hint=_VERIFY)


_VERIFY = "see what moved: derive records verify"


def _deployable(target: Target, standing: Standing) -> Iterator[Problem]:
    """Yield why the shape cannot run as it is rendered; as it was released, where today's judges say nothing."""
    reasons = list(target.bundle.judgement.reasons())
    yield from (Problem(where=_where(target), message=reason, hint="derive doctor says more") for reason in reasons)
    shape = standing.release.shapes.get(target.served.shape)
    if shape is not None and not shape.deployable and not reasons:
        needs = f": needs {', '.join(shape.needs)}" if shape.needs else ""
        message = f"{target.served.shape} was not deployable when it was released{needs}"
        yield Problem(where=f"release:{target.served.release}", message=message, hint="deploy a later release")


def _place(target: Target) -> Iterator[Problem]:
    site = target.bundle.site
    if site.example:
        message = "this is an example of fabric/, and no site: its addresses are those of documentation"
        yield Problem(where=f"site:{site.name}", message=message, hint="write one: derive site init")
