# SPDX-License-Identifier: Apache-2.0
"""Judge the site file: by itself, and against what its machines say; exit 1 where anything is wrong or unknown.

Edge: environment, files, standard streams. No machine is asked: facts come from files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, wants_json
from derive.cli.site.places import add_site, read_all_facts, require_site

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.doctor.finding import Finding

EXAMPLES = """\
  derive site check                                      the file by itself
  derive site check --facts dgx1.json dgx2.json dgx3.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_site(parser)
    parser.add_argument(
        "--facts", nargs="+", default=(), metavar="JSON", help="what derive site facts printed on each machine"
    )


def run(args: argparse.Namespace) -> int:
    """Read the site, which judges it by itself; then compare it with facts."""
    from derive.fabric.places import read_site
    from derive.fabric.site_check import check_site
    from derive.fabric.site_text import is_documentation

    given = read_site(require_site(args))
    findings = check_site(given, read_all_facts(args.facts)) if args.facts else []
    if wants_json(args):
        said: list[Json] = [{"id": one.id, **one.document()} for one in findings]
        answer_record("site-check", given.site.name, {"file": given.file, "findings": said})
    else:
        lines = [_text(one) for one in findings] or [f"{given.file}: the site {given.site.name} is sound on paper"]
        answer("\n".join(lines))
    if not args.facts:
        note("note: no machine was looked at: give --facts, what derive site facts prints on each")
    for node in given.site.nodes:
        if is_documentation(node.address):
            place = given.at(f"nodes[{node.rank}].address")
            note(f"warning: {place}: {node.address} is an address of documentation")
    return int(any(one.verdict != "pass" for one in findings))


def _text(one: Finding) -> str:
    """Return a pass as a line, and what is none as derive doctor shows it."""
    if one.verdict == "pass":
        return f"pass     {one.where}: {one.message}"
    fix = () if one.fix is None else (f"fix       {one.fix}",)
    return "\n    ".join([f"{one.verdict:<7}  {one.id}  {one.where}", one.message, *one.detail, *fix])
