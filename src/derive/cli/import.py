# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N999 - the command's name, and no statement imports it
"""Turn another deployment's cluster files and node map into a recipe and a site; nothing of them is run.

Edge: files, environment, standard streams.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from derive.cli.console import (
    answer,
    answer_record,
    note,
    path_text,
    project_of,
    project_root,
    table,
    terminal_width,
    wants_json,
)
from derive.words import one_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from pathlib import Path

    from derive.canonical import Json
    from derive.importing.plan import Imported

EXAMPLES = """\
  derive import cluster.json --nodes nodes.json
  derive import triangle.json ring.json --nodes nodes.json --name served --out imported
  derive import tp4-ring=ring.json tp3-triangle-4k=small-pages.json --model deepseek-v4-1-flash
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "clusters", nargs="+", metavar="[SHAPE=]CLUSTER", help="a cluster file (JSON); SHAPE names what is in it"
    )
    parser.add_argument(
        "--nodes", action="append", default=[], metavar="FILE", help="a node map (JSON), which becomes a site file"
    )
    parser.add_argument("--name", default="imported", help="the recipe's name (default: imported)")
    parser.add_argument("--image", metavar="NAME", help="the image that serves it (default: the project's)")
    parser.add_argument("--model", metavar="NAME", help="the checkpoint's name in a lock (default: as mounts say)")
    parser.add_argument(
        "--out", metavar="DIR", help="write into this folder (default: the project's recipes, and where sites are read)"
    )
    parser.add_argument("--all", action="store_true", help="list every key, also those that were placed or follow")


def run(args: argparse.Namespace) -> int:
    """Read, plan, write what is not there yet, and account for every key."""
    import os

    from derive.importing.plan import Request, import_files
    from derive.importing.write import read_sources, targets, write_new
    from derive.project import load_launching

    root = project_root(args)
    clusters, maps = read_sources(args.clusters, args.nodes)
    request = Request(
        name=args.name,
        image=args.image or project_of(args).settings.default_image,
        clusters=clusters,
        maps=maps,
        model=args.model,
    )
    found = import_files(request, load_launching(root))
    texts = targets(found, root, args.out, os.environ)
    write_new(texts)
    if wants_json(args):
        answer_record("import", found.name, _body(found, texts))
    else:
        _account(found, everything=args.all)
        answer("\n".join(map(str, texts)))
    return 0 if found.whole else 1


def _account(found: Imported, *, everything: bool) -> None:
    from derive.importing.account import counts, summary

    rows = [row for row in summary(found.rows) if everything or row.state not in ("placed", "derived")]
    several = len({row.file for row in found.rows}) > 1
    cells = [
        tuple(
            map(
                one_line,
                (
                    *(row.key, row.state, "" if row.place == row.key else row.place),
                    *([row.file] if several else []),
                    row.note,
                ),
            )
        )
        for row in rows
    ]
    head = ("key", "became", "where", *(["of"] if several else []), "why")
    note(table([head, *cells], width=terminal_width(sys.stderr)))
    for text in found.notes:
        note(f"note: {one_line(text)}")
    note(", ".join(f"{number} {state}" for state, number in counts(found.rows).items()))
    if not found.whole:
        note("the recipe does not say all that these files say: see what is unplaced, and what differs")


def _body(found: Imported, files: Iterable[Path]) -> dict[str, Json]:
    return {
        "files": [path_text(path) for path in files],
        "whole": found.whole,
        "keys": [
            {"file": row.file, "key": row.key, "became": row.state, "where": row.place or None, "why": row.note or None}
            for row in found.rows
        ],
        "notes": list(found.notes),
    }
