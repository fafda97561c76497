# SPDX-License-Identifier: Apache-2.0
"""Garbage collection: what no root and no living process needs goes, and what ability goes with it is said before.

Edge: the store's folder and database.

Everything that goes is moved aside under the lock that keeps living processes from naming anything new
(:mod:`derive.store.leases`), and deleted when the lock was given back. A kill at any moment leaves a store in which
what refers to something is gone before what it refers to, and the next collection finishes.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

from derive.canonical import Digest, Json
from derive.derivations.model import FlatOutput, Output, TreeOutput, parse_output
from derive.store.inventory import DAMAGED, FAILED, Inventory, Root, roots_named, take_inventory
from derive.store.leases import Held, read_leases
from derive.store.local import LocalStore
from derive.store.needs import held_outputs, needs_of_roots
from derive.store.partial import FOLDER as PARTIAL
from derive.store.reach import Ability, Level, Live, Needs, ability, live_of
from derive.store.space import give_up_reserve, is_full, keep_reserve
from derive.trees.materialise import remove_folder

_KEPT_S = 7 * 24 * 3600
_AT_ONCE = 500
_BINS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RootEffect:
    """What can be done with a root before and after; ``gaps`` counts the derivations of it that nobody knows here."""

    root: Root
    run: Ability
    rebuild: Ability
    audit: Ability
    gaps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnamedImage:
    """An image that is no root: what it was derived as, and its digest."""

    name: str
    digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """Things of one kind that go."""

    kind: str
    count: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """What a collection does, or did. ``living`` counts the other processes that had something named.

    ``unnamed`` are the images that go and have no name any more, since another was derived under it.
    """

    level: Level
    roots: tuple[RootEffect, ...]
    unnamed: tuple[UnnamedImage, ...]
    freed: tuple[Freed, ...]
    kept: int
    living: int

    @property
    def size(self) -> int:
        """Bytes that come free."""
        return sum(freed.size for freed in self.freed)

    def document(self) -> dict[str, Json]:
        """Return it as a record's body."""
        return {
            "keep": self.level.value,
            "freed_bytes": self.size,
            "kept_bytes": self.kept,
            "living_processes": self.living,
            "unnamed_images": [{"name": one.name, "digest": str(one.digest)} for one in self.unnamed],
            "freed": [{"kind": one.kind, "count": one.count, "bytes": one.size} for one in self.freed],
            "roots": [
                {
                    "kind": one.root.kind,
                    "name": one.root.name,
                    "digest": str(one.root.digest),
                    "run": one.run.value,
                    "rebuild": one.rebuild.value,
                    "audit": one.audit.value,
                    "unknown_derivations": one.gaps,
                }
                for one in self.roots
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dead:
    """What goes."""

    listings: tuple[Digest, ...]
    folders: tuple[Digest, ...]
    blobs: tuple[Digest, ...]
    logs: tuple[str, ...]
    partial: tuple[str, ...]
    damaged: tuple[str, ...]
    failed: tuple[str, ...]


def collect(store: LocalStore, level: Level, *, dry_run: bool = False, forget: Iterable[str] = ()) -> Collection:
    """Remove what no root needs at a level, and return what went; with ``dry_run``, what would.

    ``forget`` are names of roots that are to be roots no longer, as ``name`` or ``name@platform``.

    Raises:
        InputErrors: when a name to forget is none of a root; nothing has happened then.
        HostRefuses: when the store cannot be written.
    """
    forgotten = frozenset(forget)
    if dry_run:
        return _plan(store, level, forgotten, read_leases(store.root / "tmp"))[0]
    store.staging.require_writable()
    give_up_reserve(store.root)
    trash = store.staging.new_path()
    with store.locked("collect"):
        with store.staging.alone() as held:
            found, dead, roots = _plan(store, level, forgotten, held)
            for root in roots:
                _forget(store, root)
            is_tidy = _drop_rows_if_room(store, dead)
            _take_out(store, dead, trash)
        _delete(trash)
        if not is_tidy:
            _drop_rows(store, dead)
    keep_reserve(store.root)
    return found


def _plan(
    store: LocalStore, level: Level, forget: frozenset[str], held: Held
) -> tuple[Collection, _Dead, tuple[Root, ...]]:
    """Decide what stays; return it for people, what goes, and the roots that are no more."""
    inventory = take_inventory(store)
    dropped = roots_named(inventory.roots, forget)
    needs = needs_of_roots(store, inventory)
    staying = {root: one for root, one in needs.items() if root not in dropped}
    outputs = {output for one in staying.values() for output in one.kept(level)} | held_outputs(
        store.database, inventory, held
    )
    in_use = frozenset(key.hex for key in held.derivations)
    live = live_of(outputs, inventory.tree_blobs, trees=held.trees, blobs=held.blobs)
    dead = _dead(store.root, inventory, live, _logs(level, staying.values(), held), in_use)
    found = Collection(
        level=level,
        roots=_effects(inventory, needs, dropped, live),
        unnamed=_unnamed(store, dead, {root.digest for root in needs}),
        freed=_freed(store, inventory, dead),
        kept=sum(size for blob, size in inventory.blobs.items() if blob in live.blobs),
        living=held.processes - store.staging.is_claimed,
    )
    return found, dead, dropped


def _forget(store: LocalStore, root: Root) -> None:
    with store.database.cursor() as cursor:
        cursor.execute("DELETE FROM roots WHERE kind = ? AND name = ?", (root.kind, root.name))
    store.untag(root.tag)


def _logs(level: Level, needs: Iterable[Needs], held: Held) -> Callable[[str], bool]:
    """Return what says whether a log stays: those of what can be built again, and of what is being built."""
    kept = set(held.derivations)
    if level is not Level.RUN:
        kept.update(key for one in needs for key in one.derivations)
    texts = {key.hex for key in kept}
    return lambda name: name.partition(".")[0] in texts


def _dead(
    root: Path, inventory: Inventory, live: Live, log_stays: Callable[[str], bool], in_use: frozenset[str]
) -> _Dead:
    return _Dead(
        listings=tuple(sorted(inventory.listings.keys() - live.trees)),
        folders=tuple(sorted(inventory.folders - live.trees)),
        blobs=tuple(sorted(inventory.blobs.keys() - live.blobs)),
        logs=tuple(sorted(name for name in inventory.logs if not log_stays(name))),
        partial=tuple(sorted(name for name in inventory.partial if _is_abandoned(root / PARTIAL / name))),
        damaged=tuple(sorted(inventory.damaged)),
        failed=tuple(name for name in inventory.failed if name not in in_use and _is_old(root / FAILED / name)),
    )


def _is_old(folder: Path) -> bool:
    """Say whether what is kept of a failed build was left alone for a week."""
    try:
        return folder.lstat().st_mtime < time.time() - _KEPT_S
    except FileNotFoundError:
        return False


def _is_abandoned(path: Path) -> bool:
    """Say whether nobody has gone on with a partial blob for a week, nor does now."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return os.fstat(file.fileno()).st_mtime < time.time() - _KEPT_S
    except (BlockingIOError, FileNotFoundError):
        return False


def _effects(
    inventory: Inventory, needs: dict[Root, Needs], dropped: tuple[Root, ...], live: Live
) -> tuple[RootEffect, ...]:
    def before(output: Output) -> bool:
        match output:
            case TreeOutput(digest):
                return inventory.has_tree(digest)
            case FlatOutput(digest):
                return digest in inventory.blobs

    def after(output: Output) -> bool:
        return before(output) and live.holds(output)

    effects = []
    for root, one in needs.items():
        run, rebuild, audit = (ability(one, level, before, after) for level in Level)
        effect = RootEffect(root=root, run=run, rebuild=rebuild, audit=audit, gaps=one.gaps)
        if root in dropped and effect.run is Ability.YES:  # its parts may be another's, its name is not
            effect = replace(effect, run=Ability.LOST)
        effects.append(effect)
    return tuple(effects)


def _unnamed(store: LocalStore, dead: _Dead, named: AbstractSet[Digest]) -> tuple[UnnamedImage, ...]:
    going = set(dead.blobs) - named
    sql = (
        "SELECT d.name, d.document, r.outputs FROM realisations r JOIN derivations d ON d.resolved = r.resolved"
        " WHERE r.builder LIKE 'image/%'"
    )
    with store.database.cursor() as cursor:
        rows = cursor.execute(sql).fetchall()
    found = {
        parse_output(json.loads(outputs)["out"]).digest: f"{name}@{json.loads(document)['host']}"
        for name, document, outputs in rows
    }
    images = (UnnamedImage(name=name, digest=digest) for digest, name in found.items() if digest in going)
    return tuple(sorted(images, key=lambda one: (one.name, one.digest.hex)))


def _freed(store: LocalStore, inventory: Inventory, dead: _Dead) -> tuple[Freed, ...]:
    kinds = kinds_of_blobs(inventory)
    totals: dict[str, tuple[int, int]] = {}

    def add(kind: str, size: int) -> None:
        count, before = totals.get(kind, (0, 0))
        totals[kind] = (count + 1, before + size)

    for blob in dead.blobs:
        add(kinds.get(blob, "blobs that nothing names"), inventory.blobs[blob])
    for tree in dead.listings:
        add("listings", inventory.listings[tree])
    for tree in dead.folders:
        add("unpacked trees", folder_size(store.root / "trees" / tree.hex))
    for name in dead.failed:
        add("kept of failed builds", folder_size(store.root / FAILED / name))
    for kind, names, sizes in (
        ("logs", dead.logs, inventory.logs),
        ("unfinished downloads", dead.partial, inventory.partial),
        ("damaged files", dead.damaged, inventory.damaged),
    ):
        for name in names:
            add(kind, sizes[name])
    return tuple(Freed(kind=kind, count=count, size=size) for kind, (count, size) in sorted(totals.items()))


def kinds_of_blobs(inventory: Inventory) -> dict[Digest, str]:
    """Return what each blob is, for people: fetched, contents of trees, a layer, a manifest, or else an output."""
    kinds = {blob: "contents of trees" for blobs in inventory.tree_blobs.values() for blob in blobs}
    for resolved, given in inventory.outputs.items():
        builder = inventory.builders[resolved]
        for output in given:
            if isinstance(output, FlatOutput):
                kinds[output.digest] = _kind(builder)
    return kinds


def _kind(builder: str) -> str:
    if builder.startswith("fetch-"):
        return "fetched artifacts"
    return {"layer": "layers", "image": "manifests and configs"}.get(builder.partition("/")[0], "other outputs")


def folder_size(top: Path) -> int:
    """Return the bytes of the files in a folder, links not followed."""
    total = 0
    waiting = [str(top)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for item in found:
                    if item.is_dir(follow_symlinks=False):
                        waiting.append(item.path)
                    else:
                        total += item.stat(follow_symlinks=False).st_size
        except NotADirectoryError:
            total += top.lstat().st_size
        except FileNotFoundError:  # gone meanwhile
            continue
    return total


def _take_out(store: LocalStore, dead: _Dead, trash: Path) -> None:
    """Move what goes into the trash: unpacked trees and listings, then blobs."""
    root = str(store.root)
    places = cycle(_bins(trash))
    for tree in dead.folders:
        move_aside(store.root / "trees" / tree.hex, Path(f"{next(places)}/tree-{tree.hex}"))
    for name in dead.failed:
        move_aside(store.root / FAILED / name, Path(f"{next(places)}/{FAILED}-{name}"))
    for tree in dead.listings:
        _move(f"{root}/listings/{tree.hex}.json", f"{next(places)}/listing-{tree.hex}")
    for blob in dead.blobs:
        _move(f"{root}/blobs/sha256/{blob.hex}", f"{next(places)}/blob-{blob.hex}")
    for folder, names in (("logs", dead.logs), (PARTIAL, dead.partial), (DAMAGED, dead.damaged)):
        for name in names:
            _move(f"{root}/{folder}/{name}", f"{next(places)}/{folder}-{name}")


def _bins(trash: Path) -> list[Path]:
    """Make the folders that are emptied at once. Each deletion waits for the disk; those in one folder take turns."""
    bins = [trash / str(number) for number in range(_BINS)]
    for folder in bins:
        folder.mkdir(parents=True)
    return bins


def _delete(trash: Path) -> None:
    with ThreadPoolExecutor(_BINS, thread_name_prefix="gc") as pool:
        for _ in pool.map(remove_folder, trash.iterdir()):
            pass
    trash.rmdir()


def move_aside(folder: Path, target: Path) -> None:
    """Move an unpacked tree away in one stroke; absence is no error."""
    if not folder.is_symlink() and folder.is_dir():
        folder.chmod(0o755)  # an ordinary user may not move a read-only folder
    _move(str(folder), str(target))


def _move(path: str, target: str) -> None:
    try:
        os.rename(path, target)  # noqa: PTH104 - tens of thousands of them
    except FileNotFoundError:  # a person was quicker
        return


def _drop_rows_if_room(store: LocalStore, dead: _Dead) -> bool:
    """Forget them unless the disk is full: rows of what is gone harm nobody, and can go when there is room again."""
    try:
        _drop_rows(store, dead)
    except OSError as error:
        if not is_full(error, store.root):
            raise
        return False
    return True


def _drop_rows(store: LocalStore, dead: _Dead) -> None:
    """Forget the blobs under trees that go, and the images that were remembered and go."""
    with store.database.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        gone = (*dead.blobs, *dead.listings)
        for column, table, digests in (
            ("tree", "tree_blobs", dead.listings),
            ("value", "memos", gone),
            ("digest", "roots", dead.blobs),  # of what refers to an image that goes: a root of its own stays
        ):
            for start in range(0, len(digests), _AT_ONCE):
                part = [digest.hex for digest in digests[start : start + _AT_ONCE]]
                marks = ",".join("?" * len(part))
                cursor.execute(f"DELETE FROM {table} WHERE {column} IN ({marks})", part)  # noqa: S608 - ours
        cursor.execute("COMMIT")
