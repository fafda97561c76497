# SPDX-License-Identifier: Apache-2.0
"""Print the log of a build, by the name of what was built or by a derivation id.

Edge: the store, standard streams.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, path_text, project_of, store_folder, wants_json
from derive.errors import DeriveError
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

    from derive.derivations.model import Derivation

EXAMPLES = """\
  derive log perftest --platform linux/arm64
  derive log 3f1c0d9e2a7b
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", metavar="NAME|ID", help="a declared name, or 12 or more hex digits of a derivation id")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="with a name: of which platform")


def run(args: argparse.Namespace) -> int:
    """Find the log and print it."""
    from derive.build.logs import read_log

    with LocalStore(store_folder(args), reading=True) as store:
        found = read_log(store, args.name, args.platform, lambda: _current(args))
    if wants_json(args):
        body = {"derivation": str(found.derivation), "path": path_text(Path(found.path)), "text": found.text}
        answer_record("log", found.name, {**body, **({"worker": dict(found.worker)} if found.worker else {})})
        return 0
    if found.worker:
        from derive.buildkit.worker import worker_text

        note(f"ran on {worker_text(found.worker)}")
    if found.text:
        answer(found.text)
    return 0


def _current(args: argparse.Namespace) -> Derivation | None:
    """Return what the name stands for in the project, if there is one that can be read."""
    from derive.build.service import evaluate

    try:
        return evaluate(project_of(args), args.name, args.platform)
    except DeriveError:
        return None
