# SPDX-License-Identifier: Apache-2.0
"""Verify an image without running it: libraries, GPU code, requirements, owners, links, licences; exit 1 at a finding.

Edge: the store, files that are named, standard streams.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, jobs_of, note, project_of, store_folder, table, wants_json
from derive.cli.options import something
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from derive.canonical import Json
    from derive.verify.judge import Report
    from derive.verify.verifying import VerifiedImage

EXAMPLES = """\
  derive verify                                     the project's default image
  derive verify ds41f --platform linux/amd64
  derive verify ds41f --record findings.json        write what was found, for a later run
  derive verify ds41f --against findings.json       exit 1 only where something is found that is not in there
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", nargs="?", metavar="IMAGE", help="the image (default: the project's default image)")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")
    parser.add_argument("--long", action="store_true", help="also list the exceptions that were used, and licences")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--record", type=something, metavar="FILE", help="write what was found to a file")
    files.add_argument("--against", type=something, metavar="FILE", help="fail only at what this record does not have")


def run(args: argparse.Namespace) -> int:
    """Verify, and answer with what is in the image and what is wrong with it."""
    from derive.build.service import Options, named
    from derive.cli.progress import progress_for_stderr
    from derive.verify.verifying import verify_image

    project = project_of(args)
    wanted = named(project.settings.default_image if args.name is None else args.name, args.platform)
    options = Options(jobs=jobs_of(args), offline=args.offline)
    before = _recorded(args.against) if args.against else None
    with LocalStore(store_folder(args)) as store:
        found = verify_image(project, wanted.name, wanted.platform, store, options, progress_for_stderr())
    if args.record:
        Path(args.record).write_bytes(_document(found))
    new = _new(found, before) if before is not None else None
    if wants_json(args):
        more: dict[str, Json] = {} if new is None else {"new_findings": list(new)}
        answer_record("verify", found.name, {"digest": str(found.manifest), **found.report.document(), **more})
    else:
        answer(_text(found.report, everything=args.long))
    note(_counts(found))
    return int(bool(found.report.findings) if new is None else bool(new))


def _recorded(file: str) -> dict[str, Json]:
    from derive.verify.compare import recorded

    return dict(recorded(Path(file).read_bytes(), file))


def _document(found: VerifiedImage) -> bytes:
    from derive.records.model import record

    document = record("verify", found.name, found.report.document())
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _new(found: VerifiedImage, before: dict[str, Json]) -> Sequence[Json]:
    from derive.verify.compare import moved, new_findings

    new = new_findings(found.report, before)
    for key in moved(found.report, before):
        note(f"moved since that record: {key}")
    note(f"{len(new) or 'no'} findings that the record does not have")
    return new


def _text(report: Report, *, everything: bool) -> str:
    parts = []
    if report.findings:
        rows = [(one.rule.value, str(one.owner), one.path, one.what) for one in report.findings]
        parts.append(table([("finding", "of", "path", "what"), *rows]))
        parts.append("\n".join(_explained(report)))
    if report.gpu:
        devices = list(report.gpu[0].usable)
        head = ("GPU code of", "files", "codes", *devices, "architectures")
        gpu = [
            (
                str(row.owner),
                str(row.files),
                str(row.count),
                *(str(row.usable[one]) for one in devices),
                _codes(row.codes),
            )
            for row in report.gpu
        ]
        parts.append(table([head, *gpu], right=frozenset(range(1, 3 + len(devices)))))
    if report.driver.oldest is not None:
        parts.append(_driver(report))
    if everything:
        parts += _long(report)
    return "\n\n".join(parts) if parts else "nothing is wrong"


def _explained(report: Report) -> list[str]:
    """Say what each kind of finding asks for, once."""
    lines = []
    for one in report.findings:
        detail = [f"expected {one.expected}"] * bool(one.expected) + [f"got {one.got}"] * bool(one.got)
        if detail:
            lines.append(f"{one.rule.value}  {one.path or one.owner}: {'; '.join(detail)}")
    hints = sorted({f"{one.rule.value}: {one.hint}" for one in report.findings if one.hint})
    return [*lines, *(f"next  {hint}" for hint in hints)]


def _codes(codes: Sequence[object]) -> str:
    return " ".join(map(str, codes))


def _driver(report: Report) -> str:
    need = report.driver
    text = f"driver {need.oldest} or newer, for CUDA {need.cuda[-1]}"
    if need.ptx_used is not None:
        text += f"; {need.ptx_used} or newer where PTX is compiled"
    return text


def _long(report: Report) -> list[str]:
    parts = []
    if report.excepted:
        rows = [(one.declared.rule, str(len(one.findings)), one.declared.reason) for one in report.excepted]
        parts.append(table([("exception", "findings", "reason"), *rows], right=frozenset({1})))
    rows = [(str(owner), "", licence) for owner, licence in report.licences.items()]
    if rows:
        parts.append(table([("package", "licence"), *((owner, licence[:100]) for owner, _, licence in rows)]))
    return parts


def _counts(found: VerifiedImage) -> str:
    from derive.words import count_text

    counts, report = found.report.counts, found.report
    looked = (
        f"{counts.paths} paths, {counts.elf_files} ELF files, {counts.gpu_files} with GPU code, {counts.wheels} wheels"
    )
    known = sum(len(one.findings) for one in report.excepted)
    wrong = count_text(len(report.findings), "finding") if report.findings else "no findings"
    return f"{found.name} {report.platform}: {looked}: {wrong}, {known} known and declared"
