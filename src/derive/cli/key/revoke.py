# SPDX-License-Identifier: Apache-2.0
"""Take a key's word no more for this user, for good; and say what to change in the project that trusts it.

Edge: the user's data folder, the project, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, wants_json
from derive.cli.trusting import policy_here
from derive.words import count_text

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive key revoke build              one of your keys, or one that the project trusts
  derive key revoke 3f1c0d9e2a7b...    by its id, of which 12 digits do where it is known
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("key", metavar="KEY", help="a name or an id: derive key list")


def run(args: argparse.Namespace) -> int:
    """Revoke it, and answer with its id."""
    from derive.trust.keyring import user_keyring
    from derive.trust.listed import find_key, listed_keys

    keyring = user_keyring()
    policy = policy_here(args)
    own = {key.name: key.public for key in keyring.own() if key.public is not None}
    key = find_key(args.key, listed_keys(own, policy, keyring.revoked()))
    is_new = keyring.revoke(key.id, key.names[0] if key.names else "")
    if wants_json(args):
        answer_record("key-revoke", ", ".join(key.names), {"id": str(key.id), "new": is_new, "trusted": key.trusted})
    else:
        answer(str(key.id))
    if not is_new:
        note("it was revoked before")
    note("for this user, on this machine, it neither signs nor counts from now on")
    for name in key.trusted:
        note(f"others still trust it: take {name!r} out of [tool.derive.trust.keys] in pyproject.toml, and say so")
    if policy is not None and key.trusted and len(policy.keys) <= policy.threshold:
        left = len(policy.keys) - len(key.trusted)
        counts = (
            f"{count_text(left, 'key is', 'keys are')} left, and {count_text(policy.threshold, 'signature')} needed"
        )
        note(f"without it {counts}: add another, or nothing signed is taken")
    return 0
