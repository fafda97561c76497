# SPDX-License-Identifier: Apache-2.0
"""Whether a shape of a release may be deployed: what the records say, and what only experiments may pass over.

Core: no IO. The clock's reading and git's answer come in as values.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from derive.errors import Problem
from derive.records.chain import FOLDER, Chain, Entry
from derive.releases.state import open_waivers, promotions, retirement
from derive.words import near

Purpose: TypeAlias = Literal["production", "experiment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Newer:
    """What a remote's branch says of a shape and the records here do not: the working tree is older."""

    branch: str
    entry: Entry


def may_deploy(
    chain: Chain,
    release: str,
    shape: str,
    purpose: Purpose = "production",
    *,
    now_s: int,
    published: bool | Newer | None,
) -> list[Problem]:
    """Return what stands against a deploy; nothing where it may be.

    For production a shape is promoted and not retired, no waiver of it has expired, and its records are ``published``:
    a commit on a named remote branch has them, and nothing newer; None where nobody can say. An experiment needs only
    the release.
    """
    candidate = chain.candidate(release)
    if candidate is None:
        return [_unknown(chain, release)]
    if purpose == "experiment":
        return []
    if isinstance(published, Newer):
        return [_newer_problem(published, release, shape)]
    retired = retirement(chain, release, shape)
    if retired is not None:
        hint = f"deploy another; or promote it again: derive promote {release} --shape {shape} --check"
        return [Problem(where=retired.where, message=f"{shape} of {release} is retired: {_why(retired)}", hint=hint)]
    promoted = promotions(chain, release, shape)
    if not promoted:
        hint = f"derive promote {release} --shape {shape} --check"
        return [Problem(where=candidate.where, message=f"{shape} of {release} is not promoted", hint=hint)]
    last = promoted[-1]
    return [*_waiver_problems(chain, release, shape, last, now_s), *_publishing_problems(last, published)]


def _unknown(chain: Chain, release: str) -> Problem:
    if chain.of(release, "historical"):
        message = f"{release} is a historical record, which nothing can be deployed from"
        return Problem(where=chain.of(release, "historical")[0].where, message=message)
    names = [entry.record.subject for entry in chain.entries if entry.record.kind == "candidate"]
    return Problem(where=FOLDER, message=f"no release is called {release!r}", hint=near(release, names))


def _why(entry: Entry) -> str:
    return str(entry.record.body.get("why"))


def _newer_problem(newer: Newer, release: str, shape: str) -> Problem:
    entry, hint = newer.entry, f"take in what {newer.branch} has: git pull"
    if entry.record.kind == "retired":
        message = f"{shape} of {release} is retired on {newer.branch}: {_why(entry)}"
    else:
        message = f"{newer.branch} has a newer promotion of {shape} of {release}, which is not here"
    return Problem(where=entry.where, message=message, hint=hint)


def _waiver_problems(chain: Chain, release: str, shape: str, last: Entry, now_s: int) -> list[Problem]:
    return [
        Problem(
            where=f"{last.where}: body.evidence",
            message=f"a waiver of {shape} has expired: {one.reason}",
            detail=(f"expired   {date_text(one.expires_s)}",),
            hint=f"bring the evidence and promote again: derive promote {release} --shape {shape}",
        )
        for one in open_waivers(chain, release, shape)
        if one.is_expired(now_s)
    ]


def _publishing_problems(last: Entry, published: bool | None) -> list[Problem]:
    if published:
        return []
    if published is None:
        message, hint = "whether it is published is not known", "fetch the branch that is named: git fetch"
    else:
        message, hint = "this record is on no named remote branch", "commit records/, and push the branch"
    return [Problem(where=last.where, message=message, hint=hint)]


def date_text(seconds: int) -> str:
    """Write a time as the day that it is in, UTC: ``2026-11-30``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
