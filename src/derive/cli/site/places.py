# SPDX-License-Identifier: Apache-2.0
"""What commands about a site share: the option that names its file, the file, and facts from files.

Edge: environment, files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.options import something
from derive.errors import InputErrors, Problem

if TYPE_CHECKING:
    import argparse

    from derive.fabric.facts import NodeFacts


def add_site(parser: argparse.ArgumentParser) -> None:
    """Declare the option that names the site's file."""
    parser.add_argument(
        "--site",
        metavar="FILE",
        type=something,
        help="the site's file (default: $DERIVE_SITE, else site.toml in the user's derive folder)",
    )


def require_site(args: argparse.Namespace) -> Path:
    """Return the site's file.

    Raises:
        InputErrors: when nobody named one and the user has none.
    """
    from derive.fabric.places import find_site, user_site

    found = find_site(os.environ, args.site)
    if found is None:
        where = str(user_site(os.environ))
        raise InputErrors.one("no site file", where=where, hint="write one: derive site init")
    return found


def read_all_facts(files: Sequence[str]) -> list[NodeFacts]:
    """Read the facts of several machines.

    Raises:
        InputErrors: every problem of every file.
    """
    from derive.fabric.facts import read_facts
    from derive.fabric.places import read_bytes

    facts: list[NodeFacts] = []
    problems: list[Problem] = []
    for file in files:
        try:
            facts.append(read_facts(read_bytes(Path(file), "derive site facts > FILE, on that machine"), file))
        except InputErrors as error:
            problems += error.problems()
    if problems:
        raise InputErrors(problems)
    return facts
