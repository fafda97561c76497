# SPDX-License-Identifier: Apache-2.0
"""Check and time kernels on a GPU: here, or on another machine with a bundle; keep what it reports.

Edge: the store, standard streams, one file, records/.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer_record, jobs_of, note, path_text, project_of, store_folder, wants_json
from derive.cli.outputs import answer_beside
from derive.cli.running import options_of
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.kernels.bench import Bundle, Recorded
    from derive.project import Project

EXAMPLES = """\
  derive kernels bench                                  on this machine's GPU, with python3's torch
  derive kernels bench --pack kernels.tar.xz            for another: unpack it there, python3 kernels/run.py --all
  derive kernels bench --record out/report.json         what came back becomes a record, with a plot
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--pack", metavar="FILE", help="write a bundle (.tar.xz) that runs without derive, and stop")
    which.add_argument("--record", metavar="REPORT", help="check a report and write it to records/kernels/")
    which.add_argument(
        "--python", metavar="PYTHON", default="python3", help="has torch for the GPU here (default: python3)"
    )
    parser.add_argument("--gpu", metavar="ARCHITECTURE", default="sm_90a", help="of the GPU (default: sm_90a)")
    parser.add_argument("--kernel", metavar="NAME", action="append", default=[], help="only this one; may be repeated")
    parser.add_argument(
        "--wheels", metavar="FOLDER", help="TileLang's wheels for the Python there (default: the lock's)"
    )
    parser.add_argument("--name", metavar="NAME", help="what the record is called (default: card and digest)")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")


def run(args: argparse.Namespace) -> int:
    """Pack, record, or do it all here."""
    project = project_of(args)
    if args.record is not None:
        return _record(args, project, _read(args.record), args.record)
    if args.pack is not None:
        return _pack(args, project)
    from derive.errors import HostRefuses
    from derive.kernels.bench import ELSEWHERE, gpu_refusal, run_here

    why = gpu_refusal(args.python)
    if why is not None:
        raise HostRefuses(f"no kernel can be timed here: {why}", hint=ELSEWHERE)
    with LocalStore(store_folder(args)) as store:
        report = run_here(_gather(args, project, store), args.python)
    return _record(args, project, report, "the report")


def _read(name: str) -> bytes:
    from derive.infile import read_named

    return read_named(name)


def _gather(args: argparse.Namespace, project: Project, store: LocalStore) -> Bundle:
    from derive.cli.progress import progress_for_stderr
    from derive.kernels.bench import Wanted, gather

    wheels = None if args.wheels is None else Path(args.wheels)
    wanted = Wanted(gpu=args.gpu, kernels=tuple(args.kernel), wheels=wheels)
    options = options_of(args)
    return gather(project, store, wanted, options, progress_for_stderr())


def _pack(args: argparse.Namespace, project: Project) -> int:
    from derive.kernels.bench import pack
    from derive.words import size_text

    say = answer_beside(args, args.pack)
    with LocalStore(store_folder(args)) as store:
        bundle = _gather(args, project, store)
        size = pack(bundle, args.pack, jobs=jobs_of(args))
    if wants_json(args):
        body: dict[str, Json] = {"file": path_text(Path(args.pack)), "size_bytes": size, "manifest": bundle.manifest}
        answer_record("kernel-bundle", args.gpu, body)
    else:
        note(f"{size_text(size)}; there: tar -xJf FILE && python3 kernels/run.py --all --out out")
        say(str(args.pack))
    return 0


def _record(args: argparse.Namespace, project: Project, data: bytes, where: str) -> int:
    from derive.kernels.bench import keep_report

    kept: Recorded = keep_report(project, data, where=where, name=args.name)
    if wants_json(args):
        body: dict[str, Json] = {
            "record": path_text(kept.record),
            "plot": path_text(kept.picture),
            "well": kept.report.is_well,
        }
        answer_record("kernels-bench", kept.report.card or "no GPU", body)
    else:
        from derive.cli.console import answer

        for line in kept.lines:
            note(line)
        answer(str(kept.record))
    return 0 if kept.report.is_well else 1
