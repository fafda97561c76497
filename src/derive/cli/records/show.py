# SPDX-License-Identifier: Apache-2.0
"""Print what the records say of a release, an experiment or a site, or one record by its number.

Edge: the project's records, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, project_root, table, wants_json
from derive.cli.options import something

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from derive.records.chain import Chain, Entry

EXAMPLES = """\
  derive records show probe-1
  derive records show 0012
  derive records show probe-1 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "name", type=something, metavar="NAME", help="a release, by name or digest; or NNNN, a record's number"
    )


def run(args: argparse.Namespace) -> int:
    """Find the records, answer with what they say."""
    from derive.records.folder import files_below, sound
    from derive.records.show import lines_of

    files = files_below(project_root(args))
    found = _entries(sound(files), args.name)
    if wants_json(args):
        records = [{"file": one.where, "digest": str(one.digest), **one.record.document()} for one in found]
        answer_record("records-show", args.name, {"records": records})
        return 0
    parts = [table(lines_of(one)) for one in found]
    parts += [table(rows) for one in found if one.record.kind == "candidate" for rows in [_released(one, files)]]
    answer("\n\n".join(parts))
    return 0


def _entries(chain: Chain, name: str) -> Sequence[Entry]:
    """Return the records of a number, else all that are about a name, else those of the release that is meant."""
    from derive.errors import InputErrors
    from derive.releases.find import entry_of

    about = [one for one in chain.entries if one.record.subject == name]
    if about:
        return about
    if len(name) == 4 and name.isdecimal():
        numbered = [one for one in chain.entries if one.number == int(name)]
        if numbered:
            return numbered
        hint = f"the last is {chain.entries[-1].number:04d}" if chain.entries else "there is none"
        raise InputErrors.one(f"no record has the number {name}", where="records/releases", hint=hint)
    return chain.of(entry_of(chain, name).record.subject)


def _released(entry: Entry, files: Mapping[str, bytes]) -> list[tuple[str, str]]:
    from derive.releases.find import known_of
    from derive.releases.show import rows_of

    known = known_of(entry, files)
    return list(rows_of(known.release, known.facts))
