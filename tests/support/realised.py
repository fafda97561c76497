# SPDX-License-Identifier: Apache-2.0
"""Steps run one after another in a store in memory, without plan, locks or history: what the builders themselves do."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

from derive.build.builders.table import BUILDERS
from derive.build.context import Context
from derive.build.fetching import StoreFetch
from derive.build.plan import resolved_of
from derive.canonical import Digest
from derive.derivations.model import Derivation, Output, TreeOutput, closure
from derive.sandbox.probe import find_sandbox
from derive.store.memory import MemoryStore

if TYPE_CHECKING:
    from derive.store.local import LocalStore


class Realised:
    """What steps gave. A work tree is in the store before; every other step is run once."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self._outputs: dict[Digest, Mapping[str, Output]] = {}
        self._resolved: dict[Digest, Mapping[str, Output]] = {}

    def __call__(self, target: Derivation) -> Mapping[str, Output]:
        """Return the outputs of a step."""
        for one in closure(target):
            if one.id not in self._outputs:
                self._outputs[one.id] = {"out": one.fixed} if one.fixed is not None else self._run(one)
        return self._outputs[target.id]

    def tree(self, target: Derivation, output: str = "out") -> Digest:
        """Return the digest of a tree that a step gave."""
        found = self(target)[output]
        assert isinstance(found, TreeOutput)
        return found.digest

    def _run(self, one: Derivation) -> Mapping[str, Output]:
        inputs = {role: self._outputs[given.derivation.id][given.output] for role, given in one.inputs.items()}
        request = resolved_of(one, inputs)
        if request.id not in self._resolved:
            context = Context(
                name=one.name,
                labels=one.labels,
                store=cast("LocalStore", self.store),
                fetch=StoreFetch(offline=True),
                sandbox=find_sandbox,
                log=lambda _: None,
                log_bytes=lambda _: None,
                jobs=1,
                scratch=PurePath("nowhere"),
                cancel=threading.Event(),
                timeout_s=None,
                from_nothing=True,
            )
            self._resolved[request.id] = BUILDERS[one.builder](request, context)
        return self._resolved[request.id]
