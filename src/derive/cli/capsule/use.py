# SPDX-License-Identifier: Apache-2.0
"""Have a capsule serve what is fetched: for the command after ``--``, or for every one from now on.

Edge: the capsule, the user's settings, another process, standard streams.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, path_text, wants_json
from derive.cli.console import table as laid_out
from derive.cli.options import something
from derive.errors import InputErrors
from derive.words import size_text

if TYPE_CHECKING:
    import argparse

    from derive.capsule.model import CapsuleDocument

EXAMPLES = """\
  derive capsule use probe-1.tar -- derive image probe --offline    for this command alone
  derive capsule use probe-1.tar                                    from now on, for you
  derive capsule use probe-1.tar --remove                           no longer
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("capsule", type=something, metavar="FILE", help="a folder, or a file that ends in .tar")
    parser.add_argument("--remove", action="store_true", help="take it out of your settings again")


def run(args: argparse.Namespace) -> int:
    """Run the command with the capsule among its archives; without one, change the user's settings."""
    path = os.path.abspath(args.capsule)  # noqa: PTH100 - links stay links
    if args.words:
        return _run_with(path, args.words)
    documents = () if args.remove else _documents(path)
    changed = _change(path, remove=args.remove)
    if wants_json(args):
        answer_record("capsule-use", path_text(Path(path)), {"used": not args.remove, "changed": changed})
    elif documents:
        rows = [("release", "blobs", "size", "digest")]
        rows += [(one.name, str(one.blobs), size_text(one.size), str(one.release)) for one in documents]
        answer(laid_out(rows, right=frozenset({1, 2})))
    return 0


def _documents(path: str) -> tuple[CapsuleDocument, ...]:
    from derive.capsule.read import open_capsule

    with open_capsule(path) as capsule:
        found = capsule.releases
    if not found:
        raise InputErrors.one("its index names no capsule", where=path)
    if not Path(path).is_dir() and not path.endswith(".tar"):
        raise InputErrors.one("a capsule that is a file has a name that ends in .tar", where=path, hint="rename it")
    return found


def _run_with(path: str, words: tuple[str, ...]) -> int:
    from derive.lock.mirrors import ARCHIVES_VARIABLE, SystemMirrors
    from derive.net.places import ArchiveSite

    _documents(path)
    others = [one.url if isinstance(one, ArchiveSite) else one.path for one in SystemMirrors().archives()]
    places = list(dict.fromkeys((path, *others)))
    split = [place for place in places if place.split() != [place]]
    if split:
        hint = "rename it, or add it to your settings: derive capsule use FILE"
        raise InputErrors.one(f"{ARCHIVES_VARIABLE} cannot name a path with a blank", where=split[0], hint=hint)
    try:
        done = subprocess.run(words, env={**os.environ, ARCHIVES_VARIABLE: " ".join(places)}, check=False)
    except OSError as error:
        raise InputErrors.one(f"{words[0]} cannot be run: {(error.strerror or '').lower()}") from error
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def _change(path: str, *, remove: bool) -> bool:
    """Add a place to the user's archives, or take it out; say whether that changed anything."""
    from derive.capsule.settings import places_in, with_places, without_empty
    from derive.lock.mirrors import ARCHIVES_VARIABLE
    from derive.net.user_edit import rewrite_config

    changed = False

    def change(data: bytes, where: str) -> bytes:
        nonlocal changed
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise InputErrors.one(f"cannot be read: {error}", where=where) from error
        before = places_in(text, where)
        after = [place for place in before if place != path] + ([] if remove else [path])
        changed = sorted(after) != sorted(before)
        if not changed:
            return data
        edited = with_places(text, after, where)
        return (edited if after else without_empty(edited)).encode()

    config = rewrite_config(os.environ, change)
    if not changed:
        note(f"{config} {'does not name it' if remove else 'names it already'}")
        return False
    note(f"{'removed from' if remove else 'added to'} {config}")
    if os.environ.get(ARCHIVES_VARIABLE) and not remove:
        note(f"note: {ARCHIVES_VARIABLE} is set, and wins over it")
    return True
