# SPDX-License-Identifier: Apache-2.0
"""Put another key in the place of one that the project trusts: both sign that, in the project's records.

Edge: the user's data folder, the project and its records, the clock, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_root, wants_json
from derive.cli.options import line
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive key new build-2027
  derive key rotate build build-2027 --why "a year is over"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("old", metavar="OLD", help="one of your keys, which the project trusts")
    parser.add_argument("new", metavar="NEW", help="the one that takes its place: derive key new NAME")
    parser.add_argument("--why", type=line, default="rotated", metavar="TEXT", help="why, for the record")


def run(args: argparse.Namespace) -> int:
    """Write it, and say what to commit."""
    import time

    from derive.canonical import decode
    from derive.project import load_policy
    from derive.records.folder import load
    from derive.records.held import require_held
    from derive.trust.folder import add_event
    from derive.trust.history import ROTATED, rotated_body
    from derive.trust.keyring import user_keyring
    from derive.trust.rotation import Rotation

    root = project_root(args)
    require_held(root)
    old, new = (user_keyring().usable([name])[0] for name in (args.old, args.new))
    policy = load_policy(root)
    name = next((name for name, key in (policy.keys if policy else {}).items() if key == old.public), None)
    if name is None:
        where = "pyproject.toml: tool.derive.trust.keys"
        hint = "name a key that it trusts now: derive key list"
        raise InputErrors.one(f"the project does not trust the key {args.old!r}", where=where, hint=hint)
    taken = next((one for one, key in (policy.keys if policy else {}).items() if key == new.public), None)
    if taken is not None:
        hint = "make another: derive key new NAME"
        raise InputErrors.one(f"the project trusts the key {args.new!r} as {taken} already", hint=hint)
    rotation = Rotation(name=name, old=old.public, new=new.public, made_s=int(time.time()))
    envelope = decode(rotation.signed(old, new).encoded())
    path = add_event(root, ROTATED, name, rotated_body(rotation, envelope, load(root).head, args.why))
    shown = str(path.relative_to(root))
    if wants_json(args):
        body = {"file": shown, "name": name, "old": str(old.public.id), "new": str(new.public.id)}
        answer_record("key-rotate", name, body)
    else:
        answer(shown)
    note(f"{name} signs with {args.new} from now on; what {args.old} signed counts where a record names it already")
    note(f"commit it: git add {shown} && git commit -m 'Rotate the key {name}'")
    note(f'in pyproject.toml you may write the new one, and need not: {name} = "{new.public}"')
    return 0
