# SPDX-License-Identifier: Apache-2.0
"""From the folder that a script installed into to a listing in the store, or to why not.

Edge: reads the folder, writes through the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from derive.canonical import escape
from derive.errors import BuildFailed, InputErrors
from derive.sandbox.references import SANDBOX_PATHS, Allowance, Reference, ReferenceScan, judge_references
from derive.store.protocol import Store
from derive.trees.listing import Listing
from derive.trees.pack import Member, add_members
from derive.trees.scan import scan_folder

_SHOWN = 20


class Finished(Protocol):
    """An output that can be read once: a folder here, or what came from elsewhere.

    ``special_bits`` lists the files with setuid or setgid, in NAR order, with their mode: facts that a tree drops.
    """

    special_bits: tuple[tuple[bytes, int], ...]

    def members(self) -> Iterator[tuple[bytes, Member]]:
        """Yield each path with its member in NAR order, the root first."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def take_output(
    store: Store,
    output: Path | Callable[[], Finished],
    *,
    name: str,
    store_path: bytes | None,
    allowances: Sequence[Allowance] = (),
    note: Callable[[str], None] = lambda _: None,
) -> Listing:
    """Read a finished output once: its contents go into the store while they are searched for references.

    ``output`` is a folder of ours alone, or opens what was brought from elsewhere.
    ``store_path`` is the store's own folder, which no output may name; ``note`` takes a line per dropped special bit
    and per allowance that was needed. The listing is located and not yet registered as a tree.

    Raises:
        BuildFailed: naming what no tree can hold, every reference that nothing allows, every allowance that is stale.
    """
    texts = SANDBOX_PATHS if store_path is None else (*SANDBOX_PATHS, os.path.abspath(store_path))  # noqa: PTH100 (bytes)
    scan = ReferenceScan(texts)
    try:
        opened = scan_folder(output, own=True) if isinstance(output, Path) else output()
        with opened as found:
            for path, mode in found.special_bits:
                note(f"dropped the special bits of {escape(path)} (mode {mode:04o})")
            listing = add_members(store, scan.watch(found.members()))
    except InputErrors as error:
        lines = tuple(f"{problem.where}: {problem.message}" for problem in error.problems())
        raise BuildFailed(f"the output of {name} is no tree", detail=_shortened(lines)) from error
    refused, stale = judge_references(scan.found, allowances)
    for reference in sorted(set(scan.found) - set(refused)):
        note(f"allowed: {_describe(reference)}")
    if refused:
        raise BuildFailed(
            f"the output of {name} names paths of its sandbox",
            detail=_shortened(tuple(map(_describe, refused))),
            hint="install with the final prefix and DESTDIR=$DERIVE_OUT, map source paths (-ffile-prefix-map), or allow"
            " them with a reason",
        )
    if stale:
        raise BuildFailed(
            f"{name} allows references that its output does not have",
            detail=_shortened(tuple(f"{item.path}: {item.text} ({item.reason})" for item in stale)),
            hint="remove these allowances",
        )
    return listing


def _describe(reference: Reference) -> str:
    place = f"{reference.place} at byte {reference.offset}" if reference.place == "contents" else reference.place
    more = f" and {reference.count - 1} more" if reference.count > 1 else ""
    return f"{escape(reference.path)}: {escape(reference.text)} in its {place}{more}"


def _shortened(lines: tuple[str, ...]) -> tuple[str, ...]:
    return lines if len(lines) <= _SHOWN else (*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more")
