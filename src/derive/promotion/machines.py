# SPDX-License-Identifier: Apache-2.0
"""What a promotion asks of the machines and of doctor: that they were looked at lately, and nothing is wrong.

Core: no IO. The clock's reading is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from derive.doctor.finding import Finding
from derive.doctor.judge import Judged
from derive.errors import Problem, expected_got
from derive.fabric.facts import NodeFacts
from derive.fabric.rule import SiteInput
from derive.fabric.site_check import check_site, facts_of
from derive.promotion.part import Part
from derive.recipes.resolved import Resolved
from derive.words import count_text, duration_text

_AHEAD_S = 300
"""Seconds by which another machine's clock may be ahead."""
_NO_TRANSPORT = "none"
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFacts:
    """What one machine said of itself, and the file that it was read from."""

    file: str
    facts: NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """What is known of the machines of a shape: the site's file, its path None where there is none, and facts."""

    site: SiteInput | None
    given: tuple[GivenFacts, ...]
    longest_s: int
    now_s: int

    @property
    def age_s(self) -> int | None:
        """The age of the oldest facts whose age is known."""
        times = [one.facts.gathered_s for one in self.given if one.facts.gathered_s is not None]
        return max(0, self.now_s - min(times)) if times else None


def machines_part(resolved: Resolved, machines: Machines) -> Part:
    """Ask that every machine of the site was looked at lately, and is as the site's file says.

    Of a shape that serves no model and has no transport, machines are not asked for unless facts are given.
    """
    if resolved.model is None and resolved.transport == _NO_TRANSPORT and not machines.given:
        return Part(unchecked=("the machines: with neither model nor transport, no facts of them were asked for",))
    problems = [*_aged(machines), *_site_problems(resolved, machines)]
    if problems:
        return Part(problems=tuple(problems))
    age = duration_text((machines.age_s or 0) * _NS)
    told = f"{count_text(len(machines.given), 'machine')} of the site, as facts of at most {age} before say"
    return Part(checked=(told,), unchecked=("the machines themselves: what they said of their network was read alone",))


def doctor_part(judged: Sequence[Judged]) -> Part:
    """Ask that no check of the shape, or of the site that it is for, found an error or could not tell."""
    problems = [problem for one in judged if one.blocks for finding in one.findings for problem in _of_finding(finding)]
    if problems:
        return Part(problems=tuple(dict.fromkeys(problems)))
    return Part(checked=(f"{count_text(len(judged), 'check')} of the shape and the site",))


def _aged(machines: Machines) -> Iterator[Problem]:
    hint = "gather them anew on that machine: derive site facts > FILE"
    for one in machines.given:
        gathered = one.facts.gathered_s
        if gathered is None:
            yield Problem(where=one.file, message="does not say when it was gathered", hint=hint)
        elif gathered > machines.now_s + _AHEAD_S:
            yield Problem(where=one.file, message="was gathered in the future, by this machine's clock", hint=hint)
        elif machines.now_s - gathered > machines.longest_s:
            ages = (machines.longest_s * _NS, (machines.now_s - gathered) * _NS)
            wanted, got = map(duration_text, ages)
            detail = expected_got(f"{wanted} or less", got)
            yield Problem(where=one.file, message="these facts are too old", detail=detail, hint=hint)


def _site_problems(resolved: Resolved, machines: Machines) -> Iterator[Problem]:
    where = f"recipes/{resolved.recipe}.toml: shapes.{resolved.shape}"
    given = machines.site
    if given is None:
        hint = "write one: derive site init; or name one with --site"
        yield Problem(where=where, message="no site's file to hold the machines against", hint=hint)
        if not machines.given:
            hint = "on each machine: derive site facts > NODE.json; then --facts NODE.json, again for each"
            yield Problem(where=where, message="no facts of the machines", hint=hint)
        return
    if given.site.cabling != resolved.cabling:
        detail = expected_got(resolved.cabling, given.site.cabling)
        hint = "name the site that the shape is for with --site"
        yield Problem(where=given.at("cabling"), message="a site of another cabling", detail=detail, hint=hint)
        return
    facts = [one.facts for one in machines.given]
    absent = [node.name for node in given.site.nodes if facts_of(node, facts) is None]
    if absent:
        hint = "there: derive site facts > NODE.json; then --facts NODE.json, again for each"
        yield Problem(where=given.at("nodes"), message=f"no facts of {', '.join(absent)}", hint=hint)
    for finding in check_site(given, facts):
        if finding.id != "site.node" or finding.verdict != "unknown" or not finding.message.startswith("nobody gave"):
            yield from _of_finding(finding)


def _of_finding(finding: Finding) -> Iterator[Problem]:
    if finding.verdict != "pass":
        message = f"{finding.message}{' (not known)' if finding.verdict == 'unknown' else ''}"
        hint = finding.fix or f"see: derive doctor why {finding.id}"
        yield Problem(where=f"{finding.id}: {finding.where}", message=message, detail=finding.detail, hint=hint)
