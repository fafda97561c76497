# SPDX-License-Identifier: Apache-2.0
"""Take a cache out of your settings, and forget all that it said; what came from it stays.

Edge: the user's settings, the store, standard streams.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, path_text, store_folder, wants_json
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive cache remove team-cache
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", metavar="NAME", help="what derive cache add called it")


def run(args: argparse.Namespace) -> int:
    """Forget it."""
    from derive.cache.rows import alarms, forget
    from derive.cache.service import one_cache
    from derive.cache.settings import remove_cache

    cache = one_cache(args.name)
    file = remove_cache(os.environ, args.name)
    with LocalStore(store_folder(args), reading=True) as store:
        had = alarms(store.database, cache.place)
        if not store.read_only:
            forget(store.database, cache.place)
    if wants_json(args):
        answer_record("cache-remove", args.name, {"place": cache.place, "file": path_text(file), "alarms": len(had)})
    else:
        answer(args.name)
    if had:
        note("its alarms are forgotten with it: added again, it is believed anew from what it shows then")
    return 0
