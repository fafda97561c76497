# SPDX-License-Identifier: Apache-2.0
"""Check that the store holds what it says it holds, and mend what can be mended.

Edge: the store, standard streams.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, jobs_of, note, path_text, store_folder, table, wants_json
from derive.store.local import LocalStore
from derive.words import count_text, duration_text, size_text

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.store.findings import Verified
    from derive.store.repair import Repair

EXAMPLES = """\
  derive store verify                  hashes everything
  derive store verify --fast           hashes nothing: presence, sizes, structure
  derive store verify --repair         brings damaged bytes back, or lets them be built again
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--fast", action="store_true", help="hash nothing: presence, sizes and structure alone")
    parser.add_argument(
        "--trees", action="store_true", help="hash each tree again too, and prove those of git to be their commits'"
    )
    parser.add_argument("--repair", action="store_true", help="mend what is found, and say how")


def run(args: argparse.Namespace) -> int:
    """Check, print what was found, and mend it when asked."""
    from derive.store.verify import How, verify

    started = time.monotonic_ns()
    repairs: tuple[Repair, ...] = ()
    is_sound = False
    with LocalStore(store_folder(args), reading=True) as store:
        found = verify(store, How(jobs=jobs_of(args), fast=args.fast, trees=args.trees))
        if args.trees:
            from derive.build.proofs import check_proofs

            proved, unproved = check_proofs(store)
            found = replace(found, findings=(*found.findings, *unproved), proved=proved)
        took = time.monotonic_ns() - started
        if args.repair:
            repairs = _repair(store, found)
            # Mending a blob may have taken a tree or an image with it: what is left is looked for, and nothing hashed.
            left = verify(store, How(jobs=jobs_of(args), fast=True)) if repairs else found
            is_sound = left.is_sound and all(one.is_mended for one in repairs)
            _note_left(left)
    if wants_json(args):
        more: dict[str, Json] = {}
        if args.repair:
            more = {"repairs": [one.document() for one in repairs], "sound_afterwards": is_sound}
        answer_record("store-verify", path_text(store.root), {**found.document(), "duration_ns": took, **more})
    else:
        answer(_text(found, took))
    return 0 if found.is_sound or is_sound else 1


def _repair(store: LocalStore, found: Verified) -> tuple[Repair, ...]:
    from functools import partial

    from derive.build.bring import bring
    from derive.build.fetching import StoreFetch
    from derive.store.repair import repair

    with StoreFetch() as fetch:
        done = repair(store, found.findings, partial(bring, fetch, store))
    for one in done:
        note(f"{one.finding.kind.value} {one.finding.name[:24]}: {one.done}")
    return done


def _note_left(left: Verified) -> None:
    """Say what is still wrong after all was mended that can be."""
    for one in left.findings:
        if one.is_damage:
            note(f"still wrong: {one.kind.value} {one.name[:24]}: {one.what}: {one.lost}")


def _text(found: Verified, took_ns: int) -> str:
    parts = []
    if found.findings:
        rows = [(one.kind.value, one.name[:24], one.what, one.lost) for one in found.findings]
        parts.append(table([("kind", "name", "what is wrong", "what is lost"), *rows]))
    looked = (
        f"{count_text(found.blobs, 'blob')}, {count_text(found.trees, 'tree')}, {found.folders} of them unpacked,"
        f" {count_text(found.derivations, 'derivation')}"
    )
    damage = sum(one.is_damage for one in found.findings)
    looked += f", {count_text(found.proved, 'git tree')} proved" if found.proved else ""
    verdict = f"{damage} damaged" if damage else "sound"
    hashed = f"; {size_text(found.hashed)} hashed in {duration_text(took_ns)}" if found.hashed else ""
    parts.append(f"{verdict}: {looked}{hashed}")
    return "\n\n".join(parts)
