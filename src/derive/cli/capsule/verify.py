# SPDX-License-Identifier: Apache-2.0
"""Check a capsule whole, or say how much of a release could be derived today, and from where.

Edge: the project, its records, the store, capsules, the network, standard streams.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, jobs_of, note, path_text, project_root, store_folder, wants_json
from derive.cli.console import table as laid_out
from derive.cli.options import something
from derive.words import count_text, size_text

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.capsule.check import Checked
    from derive.capsule.located import Derivability, Row
    from derive.releases.find import Known

EXAMPLES = """\
  derive capsule verify probe-1.tar                            is it whole, to the last byte
  derive capsule verify probe-1                                what store, archives and mirrors still have
  derive capsule verify probe-1 --capsule probe-1.tar --deep   hash what is counted
  derive capsule verify probe-1 --record                       keep the score
"""

_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    what = "a release, by name or digest; or a capsule: a folder, or a file that ends in .tar"
    parser.add_argument("what", type=something, metavar="RELEASE|FILE", help=what)
    parser.add_argument(
        "--capsule", action="append", default=[], metavar="FILE", help="look in it too; may be given again"
    )
    parser.add_argument(
        "--platform",
        action="append",
        default=[],
        choices=("linux/amd64", "linux/arm64"),
        help="the images that count (default: all of the release); may be given again",
    )
    parser.add_argument("--without-engine", action="store_true", help="leave out what the engine is built from")
    parser.add_argument("--offline", action="store_true", help="ask no mirror and no site")
    parser.add_argument("--deep", action="store_true", help="hash what store, archives and capsules have")
    parser.add_argument("--record", action="store_true", help="keep the score in records/derivability")


def run(args: argparse.Namespace) -> int:
    """Check or look; 1 when a capsule is not whole, or something of a release is nowhere."""
    if "/" in args.what or args.what.endswith(".tar") or Path(args.what, "oci-layout").is_file():
        return _check(args)
    from derive.capsule.service import Where, derivability
    from derive.releases.find import find_release

    root = project_root(args)
    known = find_release(root, args.what)
    found = derivability(
        Where(root=root, known=known, store=store_folder(args)),
        capsules=[os.path.abspath(path) for path in args.capsule],  # noqa: PTH100 - links stay links
        platforms=args.platform,
        engine=not args.without_engine,
        offline=args.offline,
        deep=args.deep,
        jobs=jobs_of(args),
        say=note,
    )
    _answer(args, known, found)
    return 1 if found.nowhere else 0


def _answer(args: argparse.Namespace, known: Known, found: Derivability) -> None:
    body = {
        "release": str(known.release.digest),
        "platforms": sorted(args.platform) or sorted(known.release.images),
        "engine": not args.without_engine,
        "deep": args.deep,
        **found.body(),
    }
    if args.record:
        from derive.records.numbered import SCORES

        path = SCORES.add(project_root(args), known.name, {**body, "checked_s": int(time.time())})
        note(f"written: {path}")
    if wants_json(args):
        answer_record("derivability", known.name, body)
    else:
        answer(_table(found))
        note(f"{known.name}: {_share(found.score_bp)} of inputs are somewhere, {_share(found.size_score_bp)} of bytes")
    for one in found.nowhere[:_SHOWN]:
        note(f"nowhere: {one.use}  {one.digest}")
    if len(found.nowhere) > _SHOWN:
        note(f"and {len(found.nowhere) - _SHOWN} more")


def _table(found: Derivability) -> str:
    rows = [("kind", "inputs", "size", *found.asked, "nowhere")]
    rows += [_row(row, found) for row in (*found.rows, found.total)]
    return laid_out(rows, right=frozenset(range(1, len(rows[0]))))


def _row(row: Row, found: Derivability) -> tuple[str, ...]:
    held = (str(row.held[place]) for place in found.asked)
    return (row.kind, str(row.inputs), size_text(row.size), *held, str(row.nowhere))


def _share(share_bp: int) -> str:
    return f"{share_bp // 100}.{share_bp % 100:02d} %"


def _check(args: argparse.Namespace) -> int:
    from derive.capsule.check import Checked, check_capsule
    from derive.capsule.read import open_capsule
    from derive.cli.console import print_error
    from derive.errors import Corrupt, InputErrors

    if args.capsule or args.record:
        hint = "name the release, and the capsule with --capsule"
        raise InputErrors.one("--capsule and --record are for a release, and this is a capsule", hint=hint)
    try:
        with open_capsule(args.what) as capsule:
            checked = check_capsule(capsule, jobs_of(args))
    except Corrupt as error:  # a tar whose members cannot even be listed
        checked = Checked(documents=(), blobs=0, size=0, unnamed=0, problems=error.problems())
    if wants_json(args):
        answer_record("capsule-check", path_text(Path(args.what)), _body(checked))
    else:
        rows = [("release", "blobs", "size", "platforms", "digest")]
        for one in checked.documents:
            parts = (str(one.blobs), size_text(one.size))
            rows.append((one.name, *parts, " ".join(one.platforms), str(one.release)))
        answer(laid_out(rows, right=frozenset({1, 2})))
    if checked.problems:
        print_error(InputErrors(checked.problems))
    note(f"{count_text(checked.blobs, 'blob')} hashed, {size_text(checked.size)}")
    if checked.unnamed:
        note(f"{count_text(checked.unnamed, 'blob')} of no release in it, not hashed")
    return 1 if checked.problems else 0


def _body(checked: Checked) -> dict[str, Json]:
    return {
        "releases": [
            {"name": one.name, "release": str(one.release), "blobs": one.blobs, "size_bytes": one.size}
            for one in checked.documents
        ],
        "blobs": checked.blobs,
        "size_bytes": checked.size,
        "unnamed_blobs": checked.unnamed,
        "problems": [
            {"where": one.where, "message": one.message, "detail": list(one.detail)} for one in checked.problems
        ],
    }
