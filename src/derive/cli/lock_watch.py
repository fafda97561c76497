# SPDX-License-Identifier: Apache-2.0
"""``derive lock watch``: what moved at the upstreams that are built from, and at those that are only read.

Edge: the network, the store, the project's lock folder, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, print_error, project_root, store_folder, table, wants_json
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse


def run_watch(args: argparse.Namespace, names: list[str]) -> int:
    """Ask every upstream, and answer with a table; exit code 1 when something moved, 3 when somebody did not answer."""
    from derive.build.locking import lock_tools
    from derive.lock.update import read_set, upstream_sets, watched, write_lock
    from derive.lock.upstreams.watch import WATCH_HEADER

    root = project_root(args)
    sets = [read_set(root, name) for name in names] if names else upstream_sets(root)
    rows = []
    with LocalStore(store_folder(args)) as store, lock_tools(store, note) as tools:
        for one in sets:
            found, data = watched(one, tools)
            rows += [(one.name, row) for row in found]
            if args.seen:
                write_lock(root, one, data)
    errors = [row.error for _, row in rows if row.error is not None]
    for error in errors:
        print_error(error)
    if wants_json(args):
        answer_record("lock-watch", "lock", {"upstreams": [{"set": name, **row.to_json()} for name, row in rows]})
    elif rows:
        answer(table([("set", *WATCH_HEADER), *((name, *row.row()) for name, row in rows)]))
    else:
        answer("nothing is watched")
    if errors:
        return 3
    return 1 if not args.seen and any(row.moved for _, row in rows) else 0
