# SPDX-License-Identifier: Apache-2.0
"""Compositions: A with some of the edits made, evaluated, priced and derived.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from derive.bisect.edits import Change
from derive.bisect.search import Things
from derive.bisect.sides import State, launching_of, project_of
from derive.build.execute import Silent
from derive.build.past import past_of
from derive.build.plan import Action
from derive.build.prices import forecast
from derive.build.service import Options, evaluate, plan_for, realise
from derive.canonical import Digest, Json, digest_document, sha256
from derive.derivations.model import Derivation, FlatOutput, Platform
from derive.errors import InputErrors
from derive.store.local import LocalStore


class Compositions:
    """Everything between two states. Each composition is evaluated once; none that does not evaluate is an error."""

    def __init__(
        self, states: tuple[State, State], store: LocalStore, options: Options, image: str, platform: Platform | None
    ) -> None:
        self.before, self.after = states
        self._change = Change(self.before.files, self.after.files)
        self.edits = self._change.edits
        self._store, self._options = store, options
        self._image, self._platform = image, platform
        self._targets: dict[Things, Derivation | None] = {}
        self._keys: dict[Things, Digest] = {}

    @property
    def everything(self) -> Things:
        """All edits: B."""
        return frozenset(range(len(self.edits)))

    def files(self, chosen: Things) -> dict[str, bytes]:
        """Return a composition's files."""
        return self._change.composed([self.edits[one] for one in chosen])

    def target(self, chosen: Things) -> Derivation | None:
        """Return what the image is in a composition; None where that does not evaluate."""
        if chosen not in self._targets:
            try:
                self._targets[chosen] = self.required(chosen)
            except InputErrors:
                self._targets[chosen] = None
        return self._targets[chosen]

    def required(self, chosen: Things) -> Derivation:
        """Return what the image is in a composition; raises InputErrors with all that is wrong."""
        project = project_of(self.files(chosen), Path("/"))
        found = evaluate(project, f"image:{self._image or project.settings.default_image}", self._platform)
        self._targets[chosen] = found
        return found

    def key(self, chosen: Things) -> Digest | None:
        """Return what a verdict is of: the image and what decides launch files; None where there is no image."""
        target = self.target(chosen)
        if target is None or chosen in self._keys:
            return self._keys.get(chosen)
        told: dict[str, Json] = {path: sha256(data).hex for path, data in launching_of(self.files(chosen)).items()}
        document: dict[str, Json] = {"derive": "bisected/1", "derivation": target.id.hex, "launching": told}
        return self._keys.setdefault(chosen, digest_document(document))

    def price(self, chosen: Things) -> tuple[int | None, int]:
        """Return what it is expected to take to derive a composition, in nanoseconds, and how many steps would run."""
        target = self.target(chosen)
        if target is None:
            return None, 0
        plan = plan_for(target, self._store, self._options.root, to_run=False)
        steps = sum(step.action is not Action.REUSE for step in plan.steps)
        expected = forecast(plan, past_of(self._store.database, plan), self._options.jobs).expected_ns if steps else 0
        return expected, steps

    def order(self, chosen: Iterable[Things]) -> list[Things]:
        """Return compositions, the cheapest to derive first; those of unknown price after those of a known one."""
        prices = {one: self.price(one) for one in chosen}
        return sorted(
            prices, key=lambda one: (prices[one][0] is None, prices[one][0] or 0, prices[one][1], sorted(one))
        )

    def derive(self, target: Derivation) -> Digest:
        """Derive an image, or find it in the store; return its manifest's digest. It is given no name there."""
        plan = plan_for(target, self._store, self._options.root)
        output = realise(plan, self._store, self._options, Silent())["out"]
        assert isinstance(output, FlatOutput)
        return output.digest
