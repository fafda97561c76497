# SPDX-License-Identifier: Apache-2.0
"""Write images or derivations with all that they need into one file, signed, for another store.

Edge: the store, the project, your keys, standard streams; writes one file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.canonical import Digest
from derive.cli.console import answer_record, note, project_of, store_folder, wants_json
from derive.cli.lapses import require_standing, tell_lapsed
from derive.cli.outputs import answer_beside
from derive.store.local import LocalStore
from derive.words import count_text, size_text

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive store export probe -o probe.closure --key build
  derive store export probe -o probe.closure --with run        enough to run it, not to build it again
  derive store export probe@linux/amd64 probe@linux/arm64 -o probe.closure --key build
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("operands", nargs="+", metavar="NAME", help="a name, image:NAME, drv:NAME or ID, DIGEST, .")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write; - prints it")
    parser.add_argument(
        "--with",
        dest="level",
        choices=("run", "rebuild", "audit"),
        default="rebuild",
        help="what runs it; also all sources, to build it again offline (default); also every output on the way",
    )
    parser.add_argument("--key", action="append", default=[], metavar="NAME", help="sign it; may be given again")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="what names are for")


def run(args: argparse.Namespace) -> int:
    """Gather, sign, write; answer with the digest of what was exported."""
    from derive.build.closures import closure_targets
    from derive.store.closure_export import export_closure
    from derive.store.closure_gather import gather
    from derive.store.reach import Level
    from derive.trust.keyring import user_keyring

    say = answer_beside(args, args.output)
    keys = user_keyring().usable(args.key) if args.key else ()
    with LocalStore(store_folder(args), reading=True) as store:
        targets = closure_targets(store, lambda: project_of(args), args.operands, args.platform)
        ids = [one if isinstance(one, Digest) else one.id for one in targets]
        if keys:
            require_standing(args, store, ids, " ".join(args.operands) or "it")
        else:
            tell_lapsed(args, store, ids)
        gathered = gather(store, targets, Level(args.level))
        done = export_closure(store, gathered, args.output, keys)
    found = gathered.closure
    if wants_json(args):
        body = {
            "digest": str(done.digest),
            "level": args.level,
            "size_bytes": done.size,
            "derivations": len(found.steps),
            "trees": len(found.trees),
            "blobs": len(found.blobs),
            "signed_by": [str(key) for key in done.signed_by],
        }
        answer_record("store-export", " ".join(args.operands), body)
    else:
        say(str(done.digest))
    counts = f"{count_text(len(found.trees), 'tree')}, {count_text(len(found.blobs), 'blob')}"
    note(f"{size_text(done.size)}: {counts}")
    if not keys:
        note("nobody signed it: whoever imports it has to say --unsigned")
    return 0
