# SPDX-License-Identifier: Apache-2.0
"""A new last patch: what a folder has that the patched source has not.

Edge: reads the folder, writes the series.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from derive.errors import CheckFailed, InputErrors
from derive.patches.arrange import series_text
from derive.patches.header import TODO, Notes, render_notes
from derive.patches.make import Change, Changes, operations_between
from derive.patches.message import new_name
from derive.patches.model import FileState, State, path_fault
from derive.patches.origins import Shop, declared_source, named_tree
from derive.patches.publish import SeriesFiles, publish
from derive.patches.render import patch_file
from derive.patches.series import SUFFIX
from derive.patches.tree import patch_tree
from derive.store.protocol import Store, read_all
from derive.trees.listing import Directory, File, Listing, Symlink
from derive.trees.pack import NewFile
from derive.trees.scan import FolderScan, scan_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The new patch: its file name, and how many paths it changes."""

    name: str
    paths: int


def append(
    shop: Shop,
    series: SeriesFiles,
    folder: Path,
    *,
    name: str,
    description: str | None,
    author: str,
    only: Sequence[str],
    source: str | None,
) -> Appended:
    """Add the difference between the patched source and a folder to the end of a series.

    ``only``: look at these paths and what lies below them, relative to the folder.

    Raises:
        CheckFailed: when nothing differs.
        InputErrors: when the series does not apply, or what differs is nothing that a patch holds; by name.
    """
    digest = named_tree(shop, source, series.upstream) if source is not None else declared_source(shop, series.upstream)
    patches = series.loaded.patches
    tree, _ = patch_tree(
        shop.store, shop.store.listing(digest), [one.operations for one in patches], names=[one.name for one in patches]
    )
    if not folder.is_dir():
        raise InputErrors.one("no such folder", where=str(folder))
    with scan_folder(folder) as scan:
        changes = changes_between(shop.store, tree, scan, only)
    if not changes:
        raise CheckFailed("the folder has nothing that the patched source has not", where=str(folder))
    operations = operations_between(changes)
    full = _full_name(name, series)
    header = render_notes(Notes(summary=description or TODO, author=author, origin=TODO, when_to_drop=TODO))
    before = {path: change.before for path, change in changes.items()}
    text = patch_file(full, header, operations, before.get)
    files = {**series.files, full: text}
    files["series"] = series_text(series.files["series"], [*series.loaded.series.names, full])
    publish(series, files)
    return Appended(name=full, paths=len(changes))


def changes_between(store: Store, tree: Listing, scan: FolderScan, only: Sequence[str] = ()) -> Changes:
    """Return what a folder has otherwise than a tree; folders themselves and git's own are not looked at."""
    wanted = tuple(os.fsencode(part.removeprefix("./").strip("/")) for part in only)
    found: dict[bytes, Change] = {}
    seen: set[bytes] = set()
    for path, member in scan.members():
        seen.add(path)
        if not _is_wanted(path, wanted):
            continue
        entry = tree.get(path)
        after = _state(member, entry)
        if after is not None and after is not _SAME:
            found[path] = Change(_stored(store, entry), after)
    for path, entry in tree.items():
        if path not in seen and not isinstance(entry, Directory) and _is_wanted(path, wanted):
            found[path] = Change(_stored(store, entry), None)
    return found


_SAME = FileState(contents=b"")


def _state(member: object, entry: object) -> State:
    """Return what is in the folder; None for a folder, and one certain value for what is in the tree too."""
    match member:
        case NewFile(executable=executable, chunks=chunks):
            contents = b"".join(chunks)
            same = isinstance(entry, File) and (entry.executable, entry.size) == (executable, len(contents))
            if same and isinstance(entry, File) and hashlib.sha256(contents).hexdigest() == entry.sha256.hex:
                return _SAME
            return FileState(contents=contents, executable=executable)
        case Symlink():
            return _SAME if member == entry else member
        case _:
            return None


def _stored(store: Store, entry: object) -> State:
    if isinstance(entry, File):
        return FileState(contents=read_all(store, entry), executable=entry.executable)
    return entry if isinstance(entry, Symlink | Directory) else None


def _is_wanted(path: bytes, only: Sequence[bytes]) -> bool:
    if not path or path_fault(path) is not None:
        return False
    return not only or any(path == one or path.startswith(one + b"/") for one in only)


def _full_name(name: str, series: SeriesFiles) -> str:
    """Return the file name that is meant by a name with or without number and ending."""
    names = {*series.loaded.series.names, *series.files}
    stem = name.removesuffix(SUFFIX)
    full = f"{stem}{SUFFIX}" if stem[:4].isdecimal() and stem[4:5] == "-" else new_name(stem, names)
    if full in names:
        raise InputErrors.one(f"{full} is there already", where=series.where)
    return full
