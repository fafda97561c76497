# SPDX-License-Identifier: Apache-2.0
"""Take a key's word no more, for good: for this user; with --record for everybody who has the project, by its records.

Edge: the user's data folder, the project and its records, the clock, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, wants_json
from derive.cli.options import line
from derive.cli.trusting import history_here, policy_here
from derive.errors import InputErrors
from derive.words import count_text

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.trust.listed import ListedKey

EXAMPLES = """\
  derive key revoke build              one of your keys, or one that the project trusts
  derive key revoke 3f1c0d9e2a7b...    by its id, of which 12 digits do where it is known
  derive key revoke build --record --why "the disk was stolen" --since 2026-11-20
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("key", metavar="KEY", help="a name or an id: derive key list")
    parser.add_argument("--record", action="store_true", help="also write it into records/keys/, so that it spreads")
    parser.add_argument("--why", type=line, metavar="TEXT", help="with --record: why")
    parser.add_argument(
        "--since",
        type=_day,
        metavar="DATE",
        help="with --record: what records name from that day on counts no more (default: what no record names yet)",
    )


def _day(text: str) -> int:
    import argparse
    from datetime import UTC, datetime

    try:
        return int(datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a day, as in 2026-11-20: {text!r}") from None


def run(args: argparse.Namespace) -> int:
    """Revoke it, and answer with its id."""
    import time

    from derive.trust.keyring import user_keyring

    if args.record and not args.why:
        raise InputErrors.one("a record says why the key counts no more", hint="say it: --why TEXT")
    unread = [name for name, given in (("--why", args.why), ("--since", args.since)) if given is not None]
    if unread and not args.record:
        message = f"{' and '.join(unread)} {'are' if len(unread) > 1 else 'is'} for a record, and none is asked for"
        raise InputErrors.one(message, hint="add --record, for all who have the project; or leave that out")
    if args.since is not None and not 0 <= args.since <= time.time():
        hint = "the first day on which others may have used it: today, or one before"
        raise InputErrors.one("a day to come, or one before 1970", where="--since", hint=hint)
    from derive.trust.listed import find_key, listed_keys

    keyring = user_keyring()
    policy = policy_here(args)
    own = {key.name: key.public for key in keyring.own() if key.public is not None}
    key = find_key(args.key, listed_keys(own, policy, history_here(args), keyring.revoked()))
    recorded = _record(args, key) if args.record else None
    is_new = keyring.revoke(key.id, key.names[0] if key.names else "")
    if wants_json(args):
        body: dict[str, Json] = {"id": str(key.id), "new": is_new, "trusted": key.trusted, "file": recorded}
        answer_record("key-revoke", ", ".join(key.names), body)
    else:
        answer(str(key.id))
    if not is_new:
        note("it was revoked before")
    note("for this user, on this machine, it neither signs nor counts from now on")
    if recorded is not None:
        note(f"and for all who have the project, once you commit it: git add {recorded} && git commit")
    if policy is not None and key.trusted and recorded is None and key.id not in policy.revoked:
        note(f"others still take its word; so that they do not: derive key revoke {args.key} --record --why TEXT")
        names = " and ".join(key.trusted)
        note(f"leave {names} in [tool.derive.trust.keys]: what it signed before can then still be judged")
    if policy is not None and key.trusted and len(policy.keys) <= policy.threshold:
        left = len(policy.keys) - len(key.trusted)
        counts = (
            f"{count_text(left, 'key is', 'keys are')} left, and {count_text(policy.threshold, 'signature')} needed"
        )
        note(f"without it {counts}: add another, or nothing signed is taken")
    return 0


def _record(args: argparse.Namespace, key: ListedKey) -> str:
    """Write that the key is taken no longer into the project's records, and return the file's path there."""
    import time

    from derive.certificates.order import last_before
    from derive.cli.console import project_root
    from derive.records.folder import load
    from derive.records.held import require_held
    from derive.trust.folder import add_event, load_history
    from derive.trust.history import REVOKED, revoked_body

    root = project_root(args)
    require_held(root)
    ends = load_history(root).ends.get(key.id, ())
    said = next((end.file for end in ends if end.cause == "revoked"), None)
    if said is not None and args.since is None:  # only an earlier day would take more from it
        note(f"a record says so already: {said}")
        return said
    upto = last_before(load(root), args.since)
    body = revoked_body(key.id, releases=upto, why=args.why, since_s=args.since, revoked_s=int(time.time()))
    name = next(iter((*key.trusted, *key.names)), key.id.short)
    path = add_event(root, REVOKED, name, body)
    successor = load_history(root).newer.get(key.id)
    if successor is not None:
        note(f"the key that took its place stays: where you did not make it, revoke it too: {successor.id}")
    note(
        "what it signed still counts where a release record that is older names it"
        if upto
        else "all that it signed counts no more"
    )
    return str(path.relative_to(root))
