# SPDX-License-Identifier: Apache-2.0
"""Print the log of a build, by the name of what was built or by a derivation id.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, store_folder, wants_json
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

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

    with LocalStore(store_folder(args)) as store:
        found = read_log(store, args.name, args.platform)
    if wants_json(args):
        body = {"derivation": str(found.derivation), "path": found.path, "text": found.text}
        answer_record("log", found.name, body)
    elif found.text:
        answer(found.text)
    return 0
