# SPDX-License-Identifier: Apache-2.0
"""List your keys and those that the project here trusts, by name and id.

Edge: the user's data folder, the project, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, table, wants_json
from derive.cli.trusting import history_here, policy_here

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.trust.listed import ListedKey

EXAMPLES = """\
  derive key list
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments: there are none."""


def run(args: argparse.Namespace) -> int:
    """Print a table."""
    from derive.trust.keyring import user_keyring
    from derive.trust.listed import listed_keys

    keyring = user_keyring()
    found = keyring.own()
    own = {key.name: key.public for key in found if key.public is not None}
    keys = listed_keys(own, policy_here(args), history_here(args), keyring.revoked())
    if wants_json(args):
        answer_record("key-list", "keys", {"keys": [_document(one) for one in keys]})
    elif keys:
        answer(table([("key", "id", "yours", "trusted here", "rotated", "revoked"), *map(_row, keys)]))
    else:
        note("no keys: derive key new NAME makes one")
    for key in found:
        if key.public is None:
            note(f"{key.path} holds no private key, or none that can be read")
    return 0


def _row(key: ListedKey) -> tuple[str, ...]:
    from derive.releases.policy import date_text

    own, trusted, revoked = ("yes" if holds else "" for holds in (key.own, key.trusted, key.revoked))
    rotated = "" if key.rotated is None else date_text(key.rotated.made_s)
    return ", ".join(key.names), str(key.id), own, trusted, rotated, revoked


def _document(key: ListedKey) -> Json:
    return {
        "id": str(key.id),
        "names": key.names,
        "public": None if key.public is None else str(key.public),
        "own": key.own,
        "trusted": bool(key.trusted),
        "rotated_s": None if key.rotated is None else key.rotated.made_s,
        "revoked": key.revoked,
    }
