# SPDX-License-Identifier: Apache-2.0
"""Whether a shape may be deployed as it is rendered, and why not: it is rendered all the same.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Json
from derive.errors import InputErrors, Problem
from derive.fabric.transports import Fabric
from derive.recipes.deployable import Clash, Missing, clashes, image_capabilities, verdict
from derive.recipes.resolved import Resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What stands against a deploy.

    ``missing`` is what the image lacks, and what is only planned; ``clashes`` what it has that takes the calls of the
    shape's transport; ``unpinned`` why nobody has pinned the model; ``unfit`` why the shape does not fit into memory,
    and ``fits`` None where nothing is known of memory. ``notes`` stand against nothing.
    """

    missing: tuple[Missing, ...] = ()
    clashes: tuple[Clash, ...] = ()
    unpinned: str | None = None
    fits: bool | None = None
    unfit: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def deployable(self) -> bool:
        """Say whether nothing stands against a deploy."""
        return not (self.missing or self.clashes or self.unpinned is not None or self.fits is False)

    def reasons(self) -> Iterator[str]:
        """Yield each reason against a deploy, in a line."""
        yield from (one.text for one in self.missing)
        yield from (one.text for one in self.clashes)
        if self.unpinned is not None:
            yield f"not deployable: the model is not pinned: {self.unpinned}"
        if self.fits is False:
            yield f"does not fit: {self.unfit}"

    def to_document(self) -> dict[str, Json]:
        """Return the judgement as it stands in a manifest."""
        needs: list[Json] = [
            {"capability": one.capability, "because": one.because} for one in self.missing if one.capability is not None
        ]
        planned = next((one.because for one in self.missing if one.capability is None), None)
        return {
            "deployable": self.deployable,
            "needs": needs,
            "planned": planned,
            "clashes": [{"capability": one.capability, "because": one.because} for one in self.clashes],
            "unpinned": self.unpinned,
            "fits": self.fits,
            "unfit": self.unfit,
            "notes": list(self.notes),
        }


def judge(resolved: Resolved, files: Mapping[str, bytes], fabric: Fabric) -> tuple[Judgement, list[Problem]]:
    """Judge a shape by its model's pin, what its image declares and what memory it takes.

    Also returns what is wrong in the files for that; ``files`` are the project's, by their path below it.
    """
    capabilities, problems = image_capabilities(files, resolved.image)
    fits, unfit = _memory(resolved, files, problems)
    judgement = Judgement(
        missing=verdict(resolved, capabilities),
        clashes=clashes(resolved, capabilities, fabric),
        unpinned=None if resolved.model is None else resolved.model.why_unpinned,
        fits=fits,
        unfit=unfit,
        notes=resolved.notes,
    )
    return judgement, problems


def _memory(resolved: Resolved, files: Mapping[str, bytes], problems: list[Problem]) -> tuple[bool | None, str | None]:
    """Say whether a shape fits, and if not the line that breaks it."""
    from derive.memory import ledger

    try:
        found = ledger.judge(resolved, files)
    except InputErrors as error:
        problems += error.problems()
        return None, None
    if found is None:
        return None, None
    return found.fits, ledger.unfit(found)
