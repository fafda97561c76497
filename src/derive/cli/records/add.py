# SPDX-License-Identifier: Apache-2.0
"""Add a record: an experiment, what was seen to run, or a release that is retired.

Edge: the project's records, git's settings, the clock, standard streams.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, project_root, wants_json
from derive.cli.options import Once, line, something
from derive.errors import InputErrors, Problem

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from derive.canonical import Json

EXAMPLES = """\
  derive records add retired probe-1 --shape ring4 --why "a node hung under load"
  derive records add observed lab --node dgx1=sha256:... --node dgx2=sha256:...
  derive records add experiment wide --base r7 --variable "8 slots" --hypothesis +10% --acceptance +8% --rollback oom
"""

_EXPERIMENT = {
    "hypothesis": "what is expected",
    "variable": "the one thing that is changed",
    "acceptance": "what must be measured for it to stay",
    "rollback": "what ends it at once",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("kind", choices=("experiment", "observed", "retired"), help="what is recorded")
    parser.add_argument("name", type=something, metavar="NAME", help="the release, experiment or site that it is about")
    parser.add_argument(
        "--by", type=line, action=Once, metavar="NAME", help="retired: who decides (default: as git says)"
    )
    parser.add_argument("--why", type=line, action=Once, metavar="TEXT", help="retired: the reason")
    parser.add_argument(
        "--shape", type=something, action=Once, metavar="NAME", help="retired: this shape alone (default: all)"
    )
    for name, text in _EXPERIMENT.items():
        parser.add_argument(f"--{name}", type=line, action=Once, metavar="TEXT", help=f"experiment: {text}")
    parser.add_argument(
        "--base", type=something, action=Once, metavar="RELEASE", help="experiment: what it is compared with"
    )
    parser.add_argument(
        "--candidate", type=something, action=Once, metavar="RELEASE", help="experiment: what is tried, once it is made"
    )
    parser.add_argument(
        "--result", type=line, action=Once, metavar="TEXT", help="experiment: how it came out, once it is over"
    )
    node = "observed: the release or image that a node runs; may be given again"
    parser.add_argument("--node", action="append", default=[], metavar="NODE=DIGEST", help=node)


def run(args: argparse.Namespace) -> int:
    """Judge what was said, append the record, and answer with its file."""
    from derive.records.folder import append
    from derive.records.held import require_held

    root = project_root(args)
    require_held(root)
    body, suffix = {"retired": _retired, "observed": _observed, "experiment": _experiment}[args.kind](args, root)
    path = append(root, args.kind, args.name, body, suffix)
    if wants_json(args):
        answer_record("records-add", args.name, {"file": path.relative_to(root).as_posix(), **body})
    else:
        answer(path.relative_to(root).as_posix())
    return 0


def _retired(args: argparse.Namespace, root: Path) -> tuple[dict[str, Json], str | None]:
    from derive.records.who import who
    from derive.releases.find import find_release
    from derive.words import near

    _require(args, ("why",))
    known = find_release(root, args.name)
    if args.shape is not None and args.shape not in known.release.shapes:
        hint = near(args.shape, known.release.shapes) or f"it has {', '.join(sorted(known.release.shapes))}"
        raise InputErrors.one(f"{known.name} has no shape {args.shape!r}", where="--shape", hint=hint)
    args.name = known.name
    now = int(time.time())
    body: dict[str, Json] = {"release": known.name, "shape": args.shape, "by": who(root, args.by), "why": args.why}
    return {**body, "retired_s": now}, f"{args.shape}-retired" if args.shape else "retired"


def _observed(args: argparse.Namespace, root: Path) -> tuple[dict[str, Json], str | None]:
    del root
    nodes: dict[str, Json] = {}
    problems = []
    for text in args.node:
        node, separator, digest = text.partition("=")
        if not (node and separator) or node in nodes:
            message = f"names no node, or one twice: {text!r}"
            problems.append(Problem(where="--node", message=message, hint="write NODE=sha256:<64 hex>"))
        nodes[node] = digest
    if not nodes:
        problems.append(Problem(where="--node", message="nothing was observed", hint="name what each node runs"))
    if problems:
        raise InputErrors(problems)
    return {"nodes": nodes, "observed_s": int(time.time())}, "observed"


def _experiment(args: argparse.Namespace, root: Path) -> tuple[dict[str, Json], str | None]:
    from derive.releases.find import find_release

    _require(args, (*_EXPERIMENT, "base"))
    body: dict[str, Json] = {name: getattr(args, name) for name in _EXPERIMENT}
    for key in ("base", "candidate"):
        named = getattr(args, key)
        body[key] = None if named is None else find_release(root, named).name
    return {**body, "result": args.result}, "experiment"


def _require(args: argparse.Namespace, names: Sequence[str]) -> None:
    absent = [name for name in names if getattr(args, name) is None]
    if absent:
        raise InputErrors([Problem(where=f"--{name}", message=f"{args.kind} needs it") for name in absent])
