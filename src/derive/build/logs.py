# SPDX-License-Identifier: Apache-2.0
"""Finds the log of a build, finished or failed.

Edge: the store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from derive.cache.rows import Substitution, substitutions
from derive.canonical import Digest
from derive.derivations.model import Derivation
from derive.errors import InputErrors
from derive.store.local import LocalStore


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLog:
    """One log. ``text`` has what is no UTF-8 replaced; ``worker`` is what ran the step elsewhere, empty for here."""

    name: str
    derivation: Digest
    path: str
    text: str
    worker: Mapping[str, str] = field(default_factory=dict)


def read_log(
    store: LocalStore, name: str, platform: str | None, current: Callable[[], Derivation | None] = lambda: None
) -> BuildLog:
    """Return the log of a derivation, by its name or by the beginning of its id.

    ``current`` is asked what a name stands for in the project at hand; where that has no log, the newest one of that
    name is returned.

    Raises:
        InputErrors: when none or several fit.
    """
    # An argument may hold bytes that are no text, which no name has.
    wanted = name.removeprefix("drv:").removeprefix("sha256:").encode("utf-8", "replace").decode()
    candidates = {
        key: found_name
        for found_name, key, _, document in store.database.find_derivations(wanted)
        if platform is None or json.loads(document)["host"] in (platform, "any")
    }
    if len(wanted) >= 12 and all(c in "0123456789abcdef" for c in wanted):
        # A build that failed has a log and no row.
        for path in store.root.joinpath("logs").glob(f"{wanted}*.log"):
            if len(path.stem) == 64:
                candidates.setdefault(Digest(path.stem), path.stem[:12])
    elif (derivation := current()) is not None and store.log_path(f"{derivation.id.hex}.log").exists():
        candidates = {derivation.id: derivation.name}
    paths = [(store.log_path(f"{key.hex}.log"), key) for key in candidates]
    present = sorted(((path.stat().st_mtime_ns, key) for path, key in paths if path.exists()), key=lambda pair: pair[0])
    if not present:
        came = _came_from(store, wanted)
        if came is not None:
            message = f"{name!r} was not built here: it came from cache {came.cache}"
            hint = "its log is where it was built; build it here: derive build NAME --check"
            raise InputErrors.one(message, detail=[f"vouched   {', '.join(came.signers)}"], hint=hint)
        raise InputErrors.one(
            f"no log is kept for {name!r}",
            hint="a failed build prints its log's path; names are listed by: derive show",
        )
    key = present[-1][1]
    path = store.log_path(f"{key.hex}.log")
    text = path.read_text(encoding="utf-8", errors="replace")
    resolved = store.database.resolved_ids([key]).get(key)
    worker = {} if resolved is None else store.database.worker(resolved)
    return BuildLog(name=candidates[key], derivation=key, path=str(path), text=text, worker=worker)


def _came_from(store: LocalStore, name: str) -> Substitution | None:
    """Return from where what a name stands for came, where that is another machine."""
    resolved = [resolved for _, _, resolved, _ in store.database.find_derivations(name)]
    return next(iter(substitutions(store.database, resolved).values()), None)
