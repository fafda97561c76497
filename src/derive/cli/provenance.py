# SPDX-License-Identifier: Apache-2.0
"""Print how an image came to be, as SLSA provenance: every artifact fetched, every step with its output.

Edge: the store, the project, your keys, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_of, store_folder, wants_json
from derive.cli.lapses import require_standing, tell_lapsed
from derive.store.local import LocalStore
from derive.words import count_text

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive provenance probe                            the statement alone
  derive provenance probe --key build > probe.dsse   in an envelope that the key signs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("operand", nargs="?", metavar="IMAGE", help="a name or digest (default: the project's default)")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")
    parser.add_argument("--key", action="append", default=[], metavar="NAME", help="sign it; may be given again")


def run(args: argparse.Namespace) -> int:
    """Read the closure, print the statement, or the envelope around it."""
    from derive.attest.gather import image_facts
    from derive.attest.provenance import provenance
    from derive.canonical import decode
    from derive.trust.dsse import sign
    from derive.trust.keyring import user_keyring
    from derive.trust.statement import PAYLOAD_TYPE

    keys = user_keyring().usable(args.key) if args.key else ()
    with LocalStore(store_folder(args), reading=True) as store:
        facts = image_facts(store, lambda: project_of(args), args.operand, args.platform)
        if keys:
            require_standing(args, store, [facts.derivation], f"the image {facts.name}")
        else:
            tell_lapsed(args, store, [facts.derivation])
    data = provenance(facts)
    if keys:
        data = sign(PAYLOAD_TYPE, data, keys).encoded()
    if wants_json(args):
        kind = "envelope" if keys else "statement"
        answer_record("provenance", facts.name, {"image": str(facts.image), kind: decode(data)})
    else:
        answer(data.decode())
    if facts.unknown:
        note(f"what {count_text(facts.unknown, 'step')} gave is not known to this store, and not said")
    if not keys:
        note("nobody signed it: --key NAME does")
    return 0
