# SPDX-License-Identifier: Apache-2.0
"""Make the store smaller and lose nothing: compress what was unpacked (slower to read), tidy the database.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, jobs_of, path_text, store_folder, table, wants_json
from derive.store.local import LocalStore
from derive.words import count_text, size_text

if TYPE_CHECKING:
    import argparse

    from derive.store.optimise import Saved

EXAMPLES = """\
  derive store optimise
  derive store optimise --folders      also removes unpacked trees, which are made again when needed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--folders", action="store_true", help="also remove unpacked trees, which are made again when needed"
    )


def run(args: argparse.Namespace) -> int:
    """Do it, and print what came free."""
    from derive.store.optimise import optimise

    with LocalStore(store_folder(args), reading=True) as store:
        saved = optimise(store, jobs=jobs_of(args), folders=args.folders)
    if wants_json(args):
        answer_record("store-optimise", path_text(store.root), saved.document())
    else:
        answer(_text(saved))
    return 0


def _text(saved: Saved) -> str:
    rows = [
        (f"{count_text(saved.packs, 'pack')} compressed", *map(size_text, saved.pack_bytes)),
        ("database", *map(size_text, saved.database_bytes)),
    ]
    if saved.folder_bytes[0]:
        rows.append(("unpacked trees", *map(size_text, saved.folder_bytes)))
    lines = table([("", "before", "after"), *rows], right=frozenset({1, 2}))
    return f"{lines}\n\n{size_text(saved.size)} came free"
