# SPDX-License-Identifier: Apache-2.0
"""Print what the records say of a release, an experiment or a site, or one record by its number, file or digest.

Edge: the project's records, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, project_root, table, wants_json
from derive.cli.options import something

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from derive.records.chain import Entry

EXAMPLES = """\
  derive records show probe-1
  derive records show 12
  derive records show records/releases/0012-probe-1.json
  derive records show sha256:3f1c0d9e2a7b                  of a release or a record: 12 or more digits
  derive records show probe-1 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    text = "a release, by name or digest; or a record, by its number, file or digest"
    parser.add_argument("name", type=something, metavar="NAME", help=text)


def run(args: argparse.Namespace) -> int:
    """Find the records, answer with what they say."""
    from derive.records.find import find_entries
    from derive.records.folder import files_below, sound
    from derive.records.show import lines_of

    files = files_below(_root_of(args.name) or project_root(args))
    found = find_entries(sound(files), args.name)
    if wants_json(args):
        records = [{"file": one.where, "digest": str(one.digest), **one.record.document()} for one in found]
        answer_record("records-show", args.name, {"records": records})
        return 0
    parts = [table(lines_of(one)) for one in found]
    parts += [table(rows) for one in found if one.record.kind == "candidate" for rows in [_released(one, files)]]
    answer("\n\n".join(parts))
    return 0


def _root_of(text: str) -> Path | None:
    """Return the project of a record's file; None for a text that is none."""
    from pathlib import Path

    from derive.records.chain import FOLDER

    folder = Path(text).absolute().parent
    is_record = "/" in text and text.endswith(".json") and Path(text).is_file()
    return folder.parents[1] if is_record and folder.as_posix().endswith(f"/{FOLDER}") else None


def _released(entry: Entry, files: Mapping[str, bytes]) -> list[tuple[str, str]]:
    from derive.releases.find import known_of
    from derive.releases.show import rows_of

    known = known_of(entry, files)
    return list(rows_of(known.release, known.facts))
