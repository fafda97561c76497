# SPDX-License-Identifier: Apache-2.0
"""What differs inside the first step that does: its second build, the bytes at hand, and what would show more.

Edge: stores, the sandbox through the engine of then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from derive.audit.compare import Moved
from derive.audit.engine import same_outputs
from derive.audit.inner import run_again
from derive.audit.scratch import Scratch
from derive.audit.verdict import Again
from derive.derivations.model import FlatOutput, Output
from derive.differ.diffoscope import next_step, run_diffoscope
from derive.differ.stored import differ_outputs
from derive.errors import Corrupt, DeriveError, HostRefuses, Interrupted, Missing
from derive.store.local import LocalStore
from derive.why.render import Line, line


@dataclass(frozen=True, slots=True)
class Shown:
    """Lines that show a difference, and what they are of; no lines, and why there are none."""

    of: str
    lines: tuple[Line, ...] = ()


def build_again(scratch: Scratch, engine: Path, argv: Sequence[str], archive: Path, moved: Moved) -> Again:
    """Build a step a second time with the engine of then, and say whether it differs from itself.

    Raises:
        HostRefuses, Interrupted: as running it does; every other failure is a part of the answer.
    """
    try:
        outputs = run_again(scratch, engine, argv, archive, moved.derivation)
    except (HostRefuses, Interrupted):
        raise
    except DeriveError as error:
        return Again(outputs=None, why_not=error.message)
    return Again(outputs=outputs, differs=same_outputs(moved.got, outputs))


def show(scratch: Scratch, own: Path, moved: Moved, again: Again | None, *, diffoscope: bool) -> Shown:
    """Show what differs: recorded and got, where a store here holds the recorded bytes; else two builds of here."""
    name = next(iter(same_outputs(moved.recorded, moved.got)), None)
    if name is None or name not in moved.recorded or name not in moved.got:
        return Shown("the two have other outputs")
    try:
        with LocalStore(own, reading=True) as ours, LocalStore(scratch.store, reading=True) as theirs:
            return _shown(moved, name, (ours, theirs), again, diffoscope=diffoscope)
    except (HostRefuses, Corrupt, Missing) as error:  # the store is that of another engine, whose form may be unknown
        return Shown(f"what differs inside is not shown: {error.message}")


def _shown(
    moved: Moved, name: str, stores: tuple[LocalStore, LocalStore], again: Again | None, *, diffoscope: bool
) -> Shown:
    ours, theirs = stores
    recorded, got = moved.recorded[name], moved.got[name]
    if holds(ours, recorded):
        return _between(moved, (name, "recorded and got"), (recorded, got), stores, diffoscope=diffoscope)
    if again is not None and again.outputs is not None and name in again.differs and name in again.outputs:
        outputs = got, again.outputs[name]
        what = "two builds of it here (the recorded bytes are in no store here)"
        return _between(moved, (name, what), outputs, (theirs, theirs), diffoscope=diffoscope)
    return Shown(
        "what differs inside is not shown: the recorded bytes are in no store here; "
        "a store that has them shows it: --store DIR"
    )


def holds(store: LocalStore, output: Output) -> bool:
    """Say whether a store has an output's bytes."""
    if store.is_absent:
        return False
    return store.has_blob(output.digest) if isinstance(output, FlatOutput) else store.has_tree(output.digest)


def _between(
    moved: Moved,
    what: tuple[str, str],
    outputs: tuple[Output, Output],
    stores: tuple[LocalStore, LocalStore],
    *,
    diffoscope: bool,
) -> Shown:
    lines = differ_outputs(moved.name, *outputs, stores)
    paths = [_path(store, output) for store, output in zip(stores, outputs, strict=True)]
    first, second = paths
    if diffoscope and first is not None and second is not None:
        lines += [line(row) for row in run_diffoscope(first, second).splitlines()]
    elif first is not None and second is not None and (command := next_step(first, second)) is not None:
        lines.append(line(f"more: {command}", "dim"))
    return Shown(f"output {what[0]}, {what[1]}", tuple(lines))


def _path(store: LocalStore, output: Output) -> Path | None:
    """Return where an output lies as a file or folder; None where it is not unpacked, and cannot be here."""
    try:
        return Path(store.blob_path(output.digest)) if isinstance(output, FlatOutput) else store.folder(output.digest)
    except DeriveError:
        return None
