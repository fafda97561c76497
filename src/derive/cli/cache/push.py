# SPDX-License-Identifier: Apache-2.0
"""Push outputs that were built here into a cache, and sign that they were.

Edge: the store, the project, your keys, a registry, standard streams.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from derive.cli.cache.targets import add_targets, targets_of
from derive.cli.console import answer, answer_record, note, store_folder, wants_json
from derive.cli.trusting import policy_here
from derive.store.local import LocalStore
from derive.words import count_text, size_text

if TYPE_CHECKING:
    import argparse

    from derive.cache.pushing import PushedCache, Shareable
    from derive.canonical import Json

EXAMPLES = """\
  derive cache push --key ann                       of the project's default image
  derive cache push office probe perftest --key ci  into one of several caches
  derive cache push probe --key ann --sources       with what was fetched, for a site without the upstreams
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_targets(parser)
    parser.add_argument(
        "--key", required=True, metavar="NAME", help="the key that signs; one that this machine alone has"
    )
    parser.add_argument("--sources", action="store_true", help="push what was fetched, too")


def run(args: argparse.Namespace) -> int:
    """Send, sign, and answer with the number of claims in the log."""
    from derive.cache.connect import connect_to_write
    from derive.cache.pushing import push, shareable
    from derive.cache.service import revoked_here
    from derive.cache.vouching import counting_keys
    from derive.cli.transfers import Outputs
    from derive.errors import InputErrors
    from derive.trust.keyring import user_keyring

    (key,) = user_keyring().usable([args.key])
    policy = policy_here(args)
    trusted = (
        {} if policy is None else {name: policy.keys[name] for name in counting_keys(policy, revoked_here()).values()}
    )
    with LocalStore(store_folder(args)) as store, Outputs("pushed") as progress:
        cache, targets = targets_of(args, store)
        store.protect(())  # what is found present below stays so
        found = shareable(store, targets, sources=args.sources)
        if not found.claims:
            hint = "derive it first: derive image, or derive build"
            raise InputErrors.one("nothing of it was built here, so there is nothing to vouch for", hint=hint)
        remote = connect_to_write(cache, progress)
        with closing(remote.client):
            done = push(store, cache, remote, found, key, trusted, progress, progress.count)
    if key.public not in trusted.values():
        note(f"the project does not trust the key {args.key}: nobody takes what it vouches for until it does")
    if wants_json(args):
        answer_record("cache-push", cache.name, _body(done, found))
    else:
        answer(str(done.head.digest) if done.head is not None else "")
    note(_summary(done, found))
    return 0


def _body(done: PushedCache, found: Shareable) -> dict[str, Json]:
    return {
        "entry": None if done.head is None else str(done.head.digest),
        "sequence": None if done.head is None else done.head.sequence,
        "claims": done.claims,
        "claims_before": done.known,
        "outputs": done.sent.outputs,
        "outputs_there": done.sent.there,
        "blobs": done.sent.blobs,
        "bytes": done.sent.size,
        "not_built_here": found.foreign,
        "not_here": found.absent,
    }


def _summary(done: PushedCache, found: Shareable) -> str:
    sent = done.sent
    pushed = f"pushed {count_text(sent.outputs, 'output')} in {count_text(sent.blobs, 'blob')} ({size_text(sent.size)})"
    words = [
        f"{pushed}, {sent.there} there already",
        f"signed for {count_text(done.claims, 'step')} more, {done.known} signed before",
    ]
    if found.foreign:
        words.append(f"not signed for: {count_text(found.foreign, 'step')} that came from elsewhere")
    if found.absent:
        words.append(f"{count_text(found.absent, 'step')} not in the store")
    return "; ".join(words)
