# SPDX-License-Identifier: Apache-2.0
"""How long a series takes: from the bytes of its files to the digest of the patched tree, and to every verdict.

Edge: processes, stores, a work tree of git.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from derive.canonical import Digest
from derive.patches.load import series_of
from derive.patches.status import Applies, Named, judge
from derive.patches.tree import patch_tree, reader
from derive.store.local import LocalStore
from derive.trees.materialise import materialise
from derive.trees.pack import NewFile, add_members
from speed.measure import CannotMeasureError, Sample, command, in_child, settled
from speed.measure import interleaved as take
from speed.scratch import Bench
from speed.table import AtMost, Row, Time, median_time

GROUP = "patches"
FILES, PATCHES = 5_000, 200

_TARGET = AtMost(Time(500_000_000))
_LINES = 80
_CHANGED = (10, 50)
_PATCH = 'cd "$1" && while read -r name; do patch -p1 -s <"$2/$name" || exit; done <"$2/names"'


def run(setting: Bench, note: Callable[[str], None]) -> list[Row]:
    """Measure with a made-up tree and series, beside git and patch applying the same files."""
    place = setting.new_path("patches")
    place.mkdir()
    series = series_files(FILES, PATCHES)
    store = place / "store"
    tree = make_tree(store, FILES)
    note(f"patches: {PATCHES} patches of {3 * len(_CHANGED)} hunks each, {FILES} files")
    cases: dict[str, Callable[[], Sample]] = {
        "apply": lambda: settled(lambda: in_child(lambda: patched(store, tree, series))[0]),
        "judge": lambda: settled(lambda: in_child(lambda: judged(store, tree, series))[0]),
        **peers(place, store, tree, series),
    }
    taken = take(cases, setting.rounds)
    what = f"{PATCHES} patches on {FILES:,} files, from their text to the digest"
    mine = Row(
        group=GROUP,
        what=what,
        amount=median_time(taken["apply"].wall_ns),
        target=_TARGET,
        samples=taken["apply"].wall_ns,
    )
    rows = [mine]
    for key, beside in (("am", "git am"), ("patch", "patch -p1, one after the other")):
        if key in taken:
            other = median_time(taken[key].wall_ns)
            rows.append(Row(group=GROUP, what=what, amount=mine.amount, beside=beside, other=other))
    times = taken["judge"].wall_ns
    return [*rows, Row(group=GROUP, what="what each of them still does", amount=median_time(times), samples=times)]


def _path(file: int) -> bytes:
    return b"dir%d/file%d.c" % (file // 50, file)


def _line(file: int, line: int) -> bytes:
    return b"line %d of file %d: some words that fill it up\n" % (line, file)


def make_tree(root: Path, files: int) -> Digest:
    """Make a store that holds a tree of so many files, and return the tree's digest."""
    members = (
        (_path(file), NewFile(executable=False, chunks=[b"".join(_line(file, n) for n in range(1, _LINES + 1))]))
        for file in range(files)
    )
    with LocalStore(root) as store:
        return store.add_listing(add_members(store, members))


def series_files(files: int, patches: int) -> Mapping[str, bytes]:
    """Return a series: each patch changes two lines in each of three files, and is a mail that git reads too."""
    found: dict[str, bytes] = {}
    for number in range(patches):
        head = f"From {number:040x} Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\nSubject: [PATCH] {number}\n"
        changes = b"".join(_change(file, number) for file in sorted({(number * 7 + n * 131) % files for n in range(3)}))
        found[f"{number:04d}-change.patch"] = f"{head}Date: Mon, 30 Nov 2026 00:00:00 +0000\n\n---\n".encode() + changes
    names = "".join(f"{name}\n" for name in found)
    return {**found, "series": b"# licence: MIT\n" + names.encode()}


def _change(file: int, number: int) -> bytes:
    path = _path(file)
    rows = [b"diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n" % (path, path, path, path)]
    for at in _CHANGED:
        old = [b" " + _line(file, line) for line in range(at - 3, at + 4)]
        change = [b"-" + old[3][1:], b"+%d: " % number + old[3][1:]]
        rows += [b"@@ -%d,7 +%d,7 @@\n" % (at - 3, at - 3), *old[:3], *change, *old[4:]]
    return b"".join(rows)


def patched(root: Path, tree: Digest, series: Mapping[str, bytes]) -> str:
    """Read a series, apply it, prove it, keep the tree, and return its digest."""
    loaded = series_of(series, "patches/made-up")
    with LocalStore(root) as store:
        after, _ = patch_tree(store, store.listing(tree), [patch.operations for patch in loaded.patches])
        return str(store.add_listing(after))


def judged(root: Path, tree: Digest, series: Mapping[str, bytes]) -> int:
    """Read a series and judge every patch of it; return how many there are, which all must apply."""
    loaded = series_of(series, "patches/made-up")
    with LocalStore(root) as store:
        named = [Named(name=patch.name, operations=patch.operations) for patch in loaded.patches]
        found = judge(named, reader(store, store.listing(tree)))
    if not all(isinstance(one.verdict, Applies) for one in found):
        raise CannotMeasureError("a patch of the made-up series does not apply")
    return len(found)


def peers(place: Path, store: Path, tree: Digest, series: Mapping[str, bytes]) -> Mapping[str, Callable[[], Sample]]:
    """Return what applies the same files to a work tree, which is put back, untimed, before each."""
    if shutil.which("git") is None or shutil.which("patch") is None:
        return {}
    mails, work = place / "mails", place / "work"
    mails.mkdir()
    names = [name for name in series if name != "series"]
    for name in names:
        (mails / name).write_bytes(series[name])
    (mails / "names").write_text("".join(f"{name}\n" for name in names))
    (place / "box").write_bytes(b"".join(series[name] + b"-- \n1\n\n" for name in names))
    with LocalStore(store) as opened:
        materialise(opened, opened.listing(tree), work)
    command(["chmod", "-R", "u+w", work])
    git = ["git", "-C", str(work)]
    command([*git, "init", "--quiet"], env=_environment())
    command([*git, "add", "."], env=_environment())
    command([*git, "commit", "--quiet", "-m", "base"], env=_environment())
    command([*git, "tag", "base"], env=_environment())

    def back() -> None:
        command([*git, "reset", "--quiet", "--hard", "base"], env=_environment())

    def am() -> Sample:
        back()
        return settled(lambda: command([*git, "am", "--quiet", place / "box"], env=_environment()))

    def patch() -> Sample:
        back()
        return settled(lambda: command(["sh", "-c", _PATCH, "sh", work, mails], env=_environment()))

    return {"am": am, "patch": patch}


def _environment() -> Mapping[str, str]:
    """Return an environment in which a person's settings decide nothing."""
    who = {f"GIT_{role}_{what}": "a" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **who}
