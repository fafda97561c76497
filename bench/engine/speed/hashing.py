# SPDX-License-Identifier: Apache-2.0
"""How long a tree takes to hash, from a folder and from the store, beside reading its files and hashing each.

Edge: processes, a folder on disk.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from derive.canonical import Digest
from derive.derivations.model import closure
from derive.store.local import LocalStore
from derive.trees.listing import Entry, File, Listing
from derive.trees.materialise import materialise
from derive.trees.nar import nar_digest
from derive.trees.pack import NewFile
from derive.trees.scan import scan_folder
from speed.measure import CannotMeasureError, Sample, in_child
from speed.measure import interleaved as take
from speed.nix import Nix, find_nix
from speed.scratch import Bench, tree_of
from speed.table import AtMost, Factor, Row, median_time

GROUP = "tree hashing"
_ROUNDS = 9
_TARGET = AtMost(Factor(1.3))
_UNKNOWN = Digest("0" * 64)


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Measure with the first Debian root of the image, laid out in a folder."""
    root = next(one for one in closure(setting.target) if one.builder == "debian-root")
    folder = setting.new_path("tree")
    with LocalStore(setting.store) as store:
        digest, listing = tree_of(store, root)
        materialise(store, listing, folder)
    note(f"hashing: the tree {root.name}, {len(listing)} paths, {listing.size / 1e6:.0f} MB")
    cases: dict[str, Callable[[], Sample]] = {
        "plain": lambda: in_child(lambda: plain(folder))[0],
        "folder": _agreeing(digest, lambda: folder_digest(folder)),
        "store": _agreeing(digest, lambda: store_digest(setting.store, digest)),
    }
    nix = find_nix(setting.new_path("nix"))
    match nix:
        case Nix():
            cases["nix"] = lambda: nix.hash(folder)
        case reason:
            note(f"nix: {reason}")
    for case in cases.values():
        case()  # once untimed: the page cache
    taken = take(cases, max(setting.rounds, _ROUNDS))
    rows = []
    for key, what in (("folder", f"{root.name} from a folder"), ("store", f"{root.name} from the store's listing")):
        for other, beside in (("plain", "reading, hashlib on each file"), ("nix", "nix-hash --type sha256")):
            if other not in taken:
                continue
            rows.append(
                Row(
                    group=GROUP,
                    what=what,
                    amount=median_time(taken[key].wall_ns),
                    beside=beside,
                    other=median_time(taken[other].wall_ns),
                    ratio_target=_TARGET if other == "plain" else None,
                    samples=taken[key].wall_ns,
                )
            )
    return rows


def plain(folder: Path) -> int:
    """Read and hash each file of a folder, in the plainest way; return how many there are."""
    count = 0
    for above, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(above, name)  # noqa: PTH118 - the yardstick is not to carry pathlib
            if not os.path.islink(path):  # noqa: PTH114 - likewise
                with open(path, "rb") as file:  # noqa: PTH123 - likewise
                    hashlib.sha256(file.read()).hexdigest()
                count += 1
    return count


def folder_digest(folder: Path) -> str:
    """Return a folder's tree digest; nothing is kept."""
    top = os.fsencode(folder)
    with scan_folder(folder) as scan:
        entries: dict[bytes, Entry] = {}
        contents: dict[bytes, Iterable[bytes]] = {}
        for path, member in scan.members():
            if isinstance(member, NewFile):
                size = os.stat(top + b"/" + path).st_size  # noqa: PTH116 - thousands of them
                entries[path] = File(member.executable, size, _UNKNOWN)  # a NAR says nothing of a file's own digest
                contents[path] = member.chunks
            else:
                entries[path] = member
        return str(nar_digest(Listing(entries), lambda path, _: contents[path]))


def store_digest(root: Path, tree: Digest) -> str:
    """Return a stored tree's digest, computed anew from its listing and what that points to."""
    with LocalStore(root) as store:
        return str(nar_digest(store.listing(tree), lambda _, file: store.read(file)))


def _agreeing(expected: Digest, work: Callable[[], str]) -> Callable[[], Sample]:
    def case() -> Sample:
        sample, got = in_child(work)
        if got != str(expected):
            raise CannotMeasureError(f"tree digests differ: {expected} and {got}")
        return sample

    return case
