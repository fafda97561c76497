# SPDX-License-Identifier: Apache-2.0
"""Say whose the store's bytes are: of which image, shared or its own, or of which package.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, path_text, store_folder, table, wants_json
from derive.cli.store.absent import note_absent
from derive.store.local import LocalStore
from derive.words import size_text

if TYPE_CHECKING:
    import argparse

    from derive.store.usage import PackageUsage, Usage

EXAMPLES = """\
  derive store du
  derive store du probe@linux/arm64
  derive store du --packages           each artifact: archive, unpacked, contents in layers
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("names", nargs="*", metavar="IMAGE", help="only these, as NAME or NAME@PLATFORM (default: all)")
    parser.add_argument("--packages", action="store_true", help="by fetched artifact instead")


def run(args: argparse.Namespace) -> int:
    """Add up, and print it."""
    from derive.store.usage import packages, usage

    with LocalStore(store_folder(args), reading=True) as store:
        found = packages(store, args.names) if args.packages else usage(store, args.names)
    note_absent(store)
    if isinstance(found, tuple):
        if wants_json(args):
            answer_record("store-packages", path_text(store.root), {"packages": [one.document() for one in found]})
        else:
            answer(_packages(found))
    elif wants_json(args):
        answer_record("store-usage", path_text(store.root), found.document())
    else:
        answer(_usage(found))
    return 0


def _usage(found: Usage) -> str:
    head = ("image", "itself", "fetched", "all of it", "only its own")
    rows = [
        (one.root.title, *map(size_text, (one.image, one.fetched, one.total, one.exclusive))) for one in found.images
    ]
    parts = [table([head, *rows], right=frozenset({1, 2, 3, 4}))] if rows else ["no images"]
    others = [(kind, str(count), size_text(size)) for kind, count, size in found.others]
    if others:
        parts.append(table(others, right=frozenset({1, 2})))
    return "\n\n".join([*parts, f"{size_text(found.total)} in all"])


def _packages(found: tuple[PackageUsage, ...]) -> str:
    head = ("package", "archive", "unpacked", "in layers")
    rows = [(one.name, *map(size_text, (one.archive, one.unpacked, one.in_layers))) for one in found]
    return table([head, *rows], right=frozenset({1, 2, 3}))
