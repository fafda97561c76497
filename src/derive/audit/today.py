# SPDX-License-Identifier: Apache-2.0
"""The same content, derived by the engine at hand: a builder that changed without a new version shows here.

Edge: the store, the sandbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from derive.audit.compare import compare, first_divergence, inputs_of
from derive.audit.verdict import Today
from derive.build.engine import engine_digest
from derive.derivations.model import Platform
from derive.errors import DeriveError, HostRefuses, Interrupted
from derive.project import load_project
from derive.releases.describe import describe
from derive.releases.document import Release
from derive.releases.facts import Facts
from derive.store.local import LocalStore

if TYPE_CHECKING:
    from derive.build.execute import Progress
    from derive.build.service import Options


def derive_today(
    then: tuple[Release, Facts],
    project: Path,
    store: Path,
    platforms: Sequence[Platform],
    options: Options,
    progress: Progress,
) -> Today:
    """Derive a release's content with this engine in a store of its own, and compare it with what was derived then.

    Raises:
        HostRefuses, Interrupted: as deriving does; every other failure is a part of the answer.
    """
    engine = engine_digest()
    try:
        with LocalStore(store) as opened:
            found = describe(load_project(project), then[0].recipe, platforms, opened, options, progress)
    except (HostRefuses, Interrupted):
        raise
    except DeriveError as error:
        return Today(engine=engine, moved=(), unlike=0, why_not=error.problems()[0].message)
    compared = compare(then, found, platforms)
    first = first_divergence(compared.moved, inputs_of(found[1]))
    moved = () if first is None else (first.moved, *first.others)
    return Today(engine=engine, moved=moved, unlike=len(compared.added))
