# SPDX-License-Identifier: Apache-2.0
"""What a promotion is judged by: what a person brings, the records, what doctor says, the facts of machines.

Edge: the project and its records, the site's file, the environment. Nothing here says whether it is enough.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from derive.canonical import Json
from derive.doctor.case import case_of
from derive.doctor.facts import gather as gather_doctor
from derive.doctor.judge import Judged, judge
from derive.doctor.table import CHECKS
from derive.errors import InputErrors, Problem
from derive.fabric.facts import read_facts
from derive.fabric.places import find_site, read_bytes, read_site
from derive.promotion.content import Content
from derive.promotion.machines import GivenFacts, Machines
from derive.promotion.part import Part
from derive.promotion.requirements import chain_part
from derive.records.held import Held, hold
from derive.releases.evidence import evidence_problems, read_evidence
from derive.releases.find import Known
from derive.releases.speaks import About
from derive.releases.state import Waiver, waivers_of

Proof: TypeAlias = Literal["check", "certified"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be promoted, and what a person brings for it; nothing of it is judged yet.

    ``evidence`` are files, as :mod:`derive.releases.evidence` reads them. ``need`` is how many builders must agree,
    None: the project's threshold. ``longest_s`` is the greatest age of facts.
    """

    root: Path
    store: Path
    name: str
    shape: str
    proof: Proof | None
    facts: Sequence[str]
    longest_s: int
    evidence: Sequence[str]
    waiver: Waiver | None
    why: str | None
    by: str
    now_s: int
    site: str | None
    need: int | None = None


def read_records(root: Path) -> tuple[Held, Part]:
    """Return all records as they are held, and what that came to: by their digests, by git, and their evidence."""
    found = hold(root)
    evidence = evidence_problems(root, found.chain)
    return found, chain_part([*found.problems, *evidence], found.history.refused)


def all_evidence(asked: Asked, known: Known) -> tuple[Mapping[str, Json], ...]:
    """Return the evidence that is given, each file for the shape asked, and what came with the release.

    Raises:
        InputErrors: everything that is wrong with what is given.
    """
    texts = [text if ":" in text else f"{text}:{asked.shape}" for text in asked.evidence]
    recorded = known.entry.record.body["evidence"]
    assert isinstance(recorded, Sequence)
    found = (
        *(one for one in recorded if isinstance(one, Mapping)),
        *read_evidence(asked.root, texts, known.release.shapes, About.of(known.name, known.release)),
    )
    return tuple({(str(one["file"]), str(one["shape"])): one for one in found}.values())


def waived_before(asked: Asked, known: Known) -> Waiver | None:
    """Return the waiver that came with the release, unless it has expired."""
    waivers = waivers_of(known.entry.record.body, asked.shape)
    return next((one for one in waivers if not one.is_expired(asked.now_s)), None)


def ask_doctor(asked: Asked, content: Content) -> tuple[Judged, ...]:
    """Ask every check that is about the shape, or about the site that it is for."""
    site = find_site(os.environ, asked.site)
    facts = gather_doctor(content.project.root, site=site, recipe=content.served.recipe.name)
    if not content.here:  # git and records are those of the project, whatever is laid out beside it
        own = gather_doctor(asked.root, site=site, recipe=content.served.recipe.name)
        facts = replace(facts, git=own.git, records=own.records)
    case = case_of(facts)
    promotion = content.served.shapes[asked.shape].resolved.promotion  # today's, whatever content was laid out
    shapes = tuple(replace(one, promotion=promotion) for one in case.recipes.shapes if one.shape == asked.shape)
    alone = replace(case, recipes=replace(case.recipes, shapes=shapes))
    return (
        *judge(alone, [one for one in CHECKS if one.over == "shapes"]),
        *judge(case, [one for one in CHECKS if one.over == "site"]),
    )


def machines_of(asked: Asked) -> Machines:
    """Return the site's file and the facts that are given; raises InputErrors with all that is wrong."""
    path = find_site(os.environ, asked.site)
    site = read_site(path) if path is not None and path.exists() else None
    given: list[GivenFacts] = []
    problems: list[Problem] = []
    for file in asked.facts:
        try:
            data = read_bytes(Path(file), "derive site facts > FILE, on that machine")
            given.append(GivenFacts(file=file, facts=read_facts(data, file)))
        except InputErrors as error:
            problems += error.problems()
    if problems:
        raise InputErrors(problems)
    return Machines(site=site, given=tuple(given), longest_s=asked.longest_s, now_s=asked.now_s)
