# SPDX-License-Identifier: Apache-2.0
"""Resolve wishes (lock/NAME.toml) to pins (lock/NAME.lock.json), and say what moved.

Edge: the network, the store, the project's lock folder, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, print_error, project_root, store_folder, table, wants_json
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from derive.lock.update import SetFiles

EXAMPLES = """\
  derive lock                     resolve every set whose wish changed
  derive lock trixie              only that one
  derive lock --check             say whether locks fit their wishes; changes nothing
  derive lock --update openssl    move one package, with what must move with it
  derive lock --outdated          newer and security versions; changes nothing
  derive lock watch               what moved at upstreams, built or only read; changes nothing
  derive lock watch --seen        the same, and what is only read counts as seen
"""


_WIDEST = 48  # a Debian package may have twenty licences; --json has them all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    help_text = "a set (default: all); watch: upstreams that moved"
    parser.add_argument("sets", nargs="*", metavar="SET", help=help_text)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="exit 1 when a lock does not fit its wish")
    choice.add_argument("--update", action="append", metavar="NAME", help="move this package; may be given again")
    choice.add_argument("--update-all", action="store_true", help="find everything afresh")
    choice.add_argument("--outdated", action="store_true", help="list newer and security versions")
    choice.add_argument("--seen", action="store_true", help="with watch: remember what was seen")


def run(args: argparse.Namespace) -> int:
    """Do what was asked for each set."""
    from derive.errors import InputErrors
    from derive.lock.update import WATCH, read_set, set_names

    if args.sets[:1] == [WATCH]:
        from derive.cli.lock_watch import run_watch

        return run_watch(args, args.sets[1:])
    if args.seen:
        raise InputErrors.one("--seen is for derive lock watch")
    root = project_root(args)
    files = [read_set(root, name) for name in args.sets or set_names(root)]
    if args.check:
        return _check(args, files)
    with LocalStore(store_folder(args)) as store:
        if args.outdated:
            return _outdated(args, files, store)
        return _lock(args, root, files, store)


def _check(args: argparse.Namespace, files: list[SetFiles]) -> int:
    from derive.errors import CheckFailed, InputErrors
    from derive.lock.update import check_set
    from derive.lock.wishes import parse_wish

    problems = [problem for one in files for problem in check_set(one)]
    if any(parse_wish(one.wish, one.wish_file)[1] for one in files):
        raise InputErrors(problems)
    if problems:
        print_error(InputErrors(problems))
    if wants_json(args):
        found = [{"where": one.where, "message": one.message} for one in problems]
        answer_record("lock-check", "lock", {"sets": [one.name for one in files], "problems": found})
    elif not problems:
        answer("the set fits its wish" if len(files) == 1 else f"all {len(files)} sets fit their wishes")
    return CheckFailed.exit_code if problems else 0


def _outdated(args: argparse.Namespace, files: list[SetFiles], store: LocalStore) -> int:
    from derive.build.locking import lock_tools
    from derive.lock.outdated import NEWER_HEADER
    from derive.lock.update import outdated

    with lock_tools(store, note) as tools:
        found = [(one.name, newer) for one in files for newer in outdated(one, tools)]
    if wants_json(args):
        answer_record("lock-outdated", "lock", {"newer": [{"set": name, **row.to_json()} for name, row in found]})
    elif found:
        answer(table([("set", *NEWER_HEADER), *((name, *row.row()) for name, row in found)]))
    else:
        answer("nothing newer is served")
    return 1 if found else 0


def _lock(args: argparse.Namespace, root: Path, files: list[SetFiles], store: LocalStore) -> int:
    from derive.build.locking import lock_sets, lock_tools
    from derive.lock.keep import KeepAll, MoveAll, MoveNames
    from derive.lock.table import MOVE_HEADER, move_rows

    keep = MoveNames(frozenset(args.update)) if args.update else MoveAll() if args.update_all else KeepAll()
    with lock_tools(store, note) as tools:
        found = lock_sets(root, files, keep, tools, store)
    moves = [(name, move) for name, locked in found for move in locked.moves]
    if wants_json(args):
        answer_record("lock", "lock", {"moves": [{"set": name, **move.to_json()} for name, move in moves]})
    elif moves:
        names = [name for name, _ in moves]
        rows = [tuple(map(_shortened, row)) for row in move_rows([move for _, move in moves])]
        answer(table([("set", *MOVE_HEADER), *((name, *row) for name, row in zip(names, rows, strict=True))]))
    else:
        answer("nothing moved")
    return 0


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
