# SPDX-License-Identifier: Apache-2.0
"""Judges an image by every rule, and says what is in it: GPU code, the driver that it needs, licences.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive.canonical import Json
from derive.images.modes import ModeTable
from derive.verify.exceptions import Excepted, apply_exceptions
from derive.verify.findings import Finding, Owner
from derive.verify.image import ImageTree
from derive.verify.rules.config import Accounts, config_findings
from derive.verify.rules.gpu import DriverNeed, GpuRow, driver_findings, driver_need, gpu_findings, gpu_table
from derive.verify.rules.licences import licence_findings, licences
from derive.verify.rules.native import library_findings, platform_findings
from derive.verify.rules.paths import (
    interpreter_findings,
    link_findings,
    owner_findings,
    privilege_findings,
    record_findings,
)
from derive.verify.rules.wheels import Resolution, requirement_findings

if TYPE_CHECKING:
    from derive.verify.declarations import VerifyDecl


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How much was looked at."""

    paths: int
    elf_files: int
    gpu_files: int
    scripts: int
    links: int
    wheels: int
    packages: int

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What verifying an image gave. ``findings`` are those that stand after the declared exceptions."""

    platform: str
    findings: tuple[Finding, ...]
    excepted: tuple[Excepted, ...]
    gpu: tuple[GpuRow, ...]
    driver: DriverNeed
    licences: Mapping[Owner, str]
    counts: Counts

    def document(self) -> dict[str, Json]:
        """Return it as a record's body; it names no digest, so that it changes with what is found alone."""
        by_licence: dict[str, list[Json]] = {}
        for owner, licence in self.licences.items():
            by_licence.setdefault(licence, []).append(f"{owner.kind} {owner.name}")
        return {
            "platform": self.platform,
            "findings": [one.document() for one in self.findings],
            "exceptions": [one.document() for one in self.excepted],
            "gpu": [row.document() for row in self.gpu],
            "driver": self.driver.document(),
            "licences": {licence: sorted(set(map(str, names))) for licence, names in sorted(by_licence.items())},
            "looked_at": self.counts.document(),
        }


def judge(
    image: ImageTree,
    declared: VerifyDecl,
    resolution: Resolution,
    modes: ModeTable,
    *,
    file: str,
    accounts: Accounts | None = None,
    more: Sequence[Finding] = (),
) -> Report:
    """Judge an image by every rule; ``file`` is where its exceptions stand, ``more`` what was found of its layers.

    ``accounts`` are the image's, and needed where its config names a user.
    """
    need = driver_need(image, declared)
    found = [
        *platform_findings(image),
        *library_findings(image, declared),
        *gpu_findings(image, declared),
        *driver_findings(need, image, declared),
        *requirement_findings(image, resolution),
        *record_findings(image),
        *owner_findings(image),
        *interpreter_findings(image),
        *link_findings(image),
        *config_findings(image, accounts or Accounts()),
        *privilege_findings(image, modes),
        *licence_findings(image),
        *more,
    ]
    findings, excepted = apply_exceptions(found, declared.exceptions, image.platform, file=file)
    stated = {
        (one.owner.kind, one.owner.name): used.declared.licence or ""
        for used in excepted
        for one in used.findings
        if used.declared.licence is not None
    }
    known = {owner: stated.get((owner.kind, owner.name), licence) for owner, licence in licences(image).items()}
    return Report(
        platform=image.platform,
        findings=findings,
        excepted=excepted,
        gpu=gpu_table(image, declared),
        driver=need,
        licences=known,
        counts=_counts(image),
    )


def _counts(image: ImageTree) -> Counts:
    located = [facts for _, _, facts in image.located]
    return Counts(
        paths=len(image.listing),
        elf_files=len(image.elves),
        gpu_files=sum(facts.gpu is not None for facts in located),
        scripts=sum(facts.script is not None for facts in located),
        links=len(image.links),
        wheels=len(image.wheels),
        packages=len(image.packages),
    )
