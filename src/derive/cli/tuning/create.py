# SPDX-License-Identifier: Apache-2.0
"""Write a new tuning profile into the project, from another one and from settings that differ.

Edge: the project, standard streams.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_root, wants_json
from derive.cli.options import something
from derive.errors import InputErrors, Problem

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive tuning create tp4-small --from tp4 NCCL_BUFFSIZE=1048576 NCCL_MIN_NCHANNELS=2 NCCL_MAX_NCHANNELS=2
  derive tuning create tp4-plain --from tp4 NCCL_THREAD_THRESHOLDS=        leaves that one out
"""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("profile", type=something, metavar="NAME", help="of the new profile")
    parser.add_argument("settings", nargs="*", metavar="SET=VALUE", help="what differs; no value leaves a setting out")
    parser.add_argument(
        "--from",
        dest="base",
        nargs="+",
        required=True,
        metavar=("PROFILE", "SET=VALUE"),
        help="the profile to start from; what differs may follow it",
    )


def run(args: argparse.Namespace) -> int:
    """Put the profile together, judge it, and write it where nothing is."""
    from derive.fabric.catalogue import TUNING_FOLDER, load_fabric, load_tuning
    from derive.fabric.transports import find_tuning
    from derive.fabric.tuning_rows import created_text
    from derive.fabric.write import write_new
    from derive.project import load_launching

    root = project_root(args)
    fabric = load_fabric(load_launching(root))
    if not _NAME.fullmatch(args.profile):
        raise InputErrors.one("not a name of small letters, digits and hyphens", where=args.profile)
    base = find_tuning(fabric, args.base[0], "--from")
    file = f"{TUNING_FOLDER}{args.profile}.toml"
    text = created_text(base, _given([*args.settings, *args.base[1:]]), fabric)
    load_tuning(text.encode(), file, fabric)
    write_new(root / file, text, folders=True)
    if wants_json(args):
        answer_record("tuning-create", args.profile, {"file": file, "from": base.name})
    else:
        answer(file)
    note(f'next: name it in a shape, tuning = "{args.profile}"')
    return 0


def _given(texts: Sequence[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    problems = []
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            problems.append(Problem(where=text, message="not of the form SETTING=VALUE"))
        elif name in given:
            problems.append(Problem(where=text, message=f"{name} is given twice"))
        given[name] = value
    if problems:
        raise InputErrors(problems)
    return given
