# SPDX-License-Identifier: Apache-2.0
"""Remove what no root and no running build needs, and say what can no longer be run, rebuilt or audited.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, path_text, store_folder, table, wants_json
from derive.cli.store.absent import note_absent
from derive.store.local import LocalStore
from derive.words import count_text, size_text

if TYPE_CHECKING:
    import argparse

    from derive.store.collect import Collection, RootEffect

EXAMPLES = """\
  derive store gc --dry-run
  derive store gc                          keeps images, and all sources to rebuild them without a network
  derive store gc --keep run               keeps images alone
  derive store gc --forget probe@linux/arm64
  derive store gc --forget 'dev probe'     an image with overlays, as the list of roots names it
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--keep",
        choices=("run", "rebuild", "audit"),
        default="rebuild",
        help="of each root: what runs it; also its sources (default); also every output on the way",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would go, and remove nothing")
    parser.add_argument(
        "--forget", action="append", default=[], metavar="NAME", help="let a root go too; may be given again"
    )


def run(args: argparse.Namespace) -> int:
    """Collect, and print what went."""
    from derive.store.collect import collect
    from derive.store.reach import Level

    with LocalStore(store_folder(args), reading=True) as store:
        done = collect(store, Level(args.keep), dry_run=args.dry_run or store.is_absent, forget=args.forget)
    note_absent(store)
    if wants_json(args):
        answer_record("store-gc", path_text(store.root), {**done.document(), "dry_run": args.dry_run})
        return 0
    if done.living:
        note(f"{count_text(done.living, 'process', 'processes')} at work: what they need is kept")
    answer(_text(done, dry_run=args.dry_run))
    return 0


def _text(done: Collection, *, dry_run: bool) -> str:
    parts = []
    if done.roots:
        rows = [("root", "run", "rebuild", "audit", "")]
        parts.append(table([*rows, *map(_row, done.roots)]))
    else:
        parts.append("no roots: no image was derived here")
    if done.unnamed:
        rows = [("image that another took the name of", "digest", "run", "rebuild", "audit")]
        rows += [(one.name, one.digest.short, "lost", "lost", "lost") for one in done.unnamed]
        parts.append(table(rows))
    if done.freed:
        freed = [(one.kind, str(one.count), size_text(one.size)) for one in done.freed]
        parts.append(table(freed, right=frozenset({1, 2})))
    verb = "would come free" if dry_run else "came free"
    parts.append(f"{size_text(done.size)} {verb}, {size_text(done.kept)} stay")
    return "\n\n".join(parts)


def _row(effect: RootEffect) -> tuple[str, str, str, str, str]:
    abilities = (effect.run, effect.rebuild, effect.audit)
    gaps = f"{count_text(effect.gaps, 'step')} of it unknown here" if effect.gaps else ""
    return (effect.root.title, *(one.value for one in abilities), gaps)  # type: ignore[return-value]
