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

    from derive.errors import DeriveError


def run_watch(args: argparse.Namespace, names: list[str]) -> int:
    """Ask every upstream, and answer with a table; exit code 1 when something moved, 3 when somebody did not answer."""
    from derive.build.locking import lock_tools
    from derive.errors import InputErrors, Unavailable
    from derive.lock.update import read_set, upstream_sets, watched, write_lock
    from derive.lock.upstreams.watch import WATCH_HEADER
    from derive.words import count_text

    if args.check or args.update or args.update_all or args.outdated:
        raise InputErrors.one("derive lock watch takes --seen alone")
    root = project_root(args)
    sets = [read_set(root, name) for name in names] if names else upstream_sets(root)
    rows = []
    with LocalStore(store_folder(args)) as store, lock_tools(store, note) as tools:
        for one in sets:
            found, data = watched(one, tools)
            rows += [(one.name, row) for row in found]
            if args.seen:
                write_lock(root, one, data)
    silent = [(row.name, row.error) for _, row in rows if row.error is not None]
    if silent:
        detail = [f"{name}: {_reason(error)}" for name, error in silent]
        print_error(Unavailable(f"{len(silent)} of {count_text(len(rows), 'upstream')} did not answer", detail=detail))
    if wants_json(args):
        answer_record("lock-watch", "lock", {"upstreams": [{"set": name, **row.to_json()} for name, row in rows]})
    elif rows:
        answer(table([("set", *WATCH_HEADER), *((name, *row.row()) for name, row in rows)]))
    else:
        answer("nothing is watched")
    if silent:
        return 3
    return 1 if not args.seen and any(row.moved for _, row in rows) else 0


def _reason(error: DeriveError) -> str:
    """Return the last thing that was tried, in one line."""
    return error.detail[-1].removeprefix("tried").strip() if error.detail else error.message
