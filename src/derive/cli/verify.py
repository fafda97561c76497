# SPDX-License-Identifier: Apache-2.0
"""Verify an image without running it: libraries, GPU code, requirements, links, config, licences; 1 at a finding.

Edge: the store, files that are named, standard streams.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_of, store_folder, wants_json
from derive.cli.options import something
from derive.cli.running import options_of
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from derive.canonical import Json
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
    from derive.build.service import named
    from derive.cli.findings import findings_text
    from derive.cli.progress import progress_for_stderr
    from derive.verify.verifying import verify_image

    project = project_of(args)
    wanted = named(project.settings.default_image if args.name is None else args.name, args.platform)
    options = options_of(args)
    before = _recorded(args.against, wanted.name) if args.against else None
    with LocalStore(store_folder(args)) as store:
        found = verify_image(project, wanted.name, wanted.platform, store, options, progress_for_stderr())
    if args.record:
        Path(args.record).write_bytes(_document(found))
    new = _new(found, before, args.against) if before is not None else None
    if wants_json(args):
        more: dict[str, Json] = {} if new is None else {"new_findings": list(new)}
        answer_record("verify", found.name, {"digest": str(found.manifest), **found.body, **more})
    else:
        answer(findings_text(found.body, everything=args.long))
    note(_counts(found))
    return int(bool(found.body["findings"]) if new is None else bool(new))


def _recorded(file: str, image: str) -> Mapping[str, Json]:
    from derive.infile import read_named
    from derive.verify.compare import recorded

    return recorded(read_named(file, hint="write one: derive verify --record FILE"), file, image)


def _document(found: VerifiedImage) -> bytes:
    from derive.records.model import record

    document = record("verify", found.name, found.body)
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _new(found: VerifiedImage, before: Mapping[str, Json], file: str) -> Sequence[Json]:
    from derive.verify.compare import moved, moved_exceptions, new_findings, require_platform

    require_platform(before, found.body["platform"], file)
    new = new_findings(found.body, before)
    for key in moved(found.body, before):
        note(f"moved since that record: {key}")
    for line in moved_exceptions(found.body, before):
        note(line)
    note(f"{len(new) or 'no'} findings that the record does not have")
    return new


def _counts(found: VerifiedImage) -> str:
    from derive.words import count_text

    body, counts = found.body, found.body["looked_at"]
    code = f"{counts['elf_files']} ELF files, {counts['gpu_files']} with GPU code"
    looked = f"{counts['paths']} paths, {code}, {counts['wheels']} wheels"
    known = sum(one["findings"] for one in body["exceptions"])
    wrong = count_text(len(body["findings"]), "finding") if body["findings"] else "no findings"
    return f"{found.name} {body['platform']}: {looked}: {wrong}, {known} known and declared"
