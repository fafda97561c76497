# SPDX-License-Identifier: Apache-2.0
"""Read what is new in the logs of trusted keys; with a target, bring what of it others vouch for.

Edge: the store, the project, registries, standard streams.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_of, project_root, store_folder, wants_json
from derive.cli.running import options_of
from derive.cli.trusting import policy_here
from derive.errors import InputErrors, Unavailable
from derive.store.local import LocalStore
from derive.words import count_text

if TYPE_CHECKING:
    import argparse

    from derive.cache.status import Status
    from derive.cache.substitute import Substitutes
    from derive.canonical import Json
    from derive.trust.policy import Policy

EXAMPLES = """\
  derive cache pull              the logs alone: what derive plan then says needs no network
  derive cache pull probe        and the outputs of an image that others vouch for; nothing is built
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", nargs="?", metavar="TARGET", help="an image or a derivation of the project")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as its file says")


def run(args: argparse.Namespace) -> int:
    """Read logs, bring outputs; answer with what is vouched for, or what came. 1 where something cannot be right."""
    from derive.cache.service import revoked_here, substitutes_of
    from derive.cache.settings import load_caches
    from derive.cache.status import cache_status

    said: list[str] = []

    def tell(message: str) -> None:
        said.append(message)
        note(message)

    root = project_root(args)
    caches, policy = load_caches(os.environ), policy_here(args)
    if not caches:
        raise InputErrors.one("no cache is named", hint="derive cache add REF")
    if policy is None or not policy.keys:
        where = "pyproject.toml: tool.derive.trust.keys"
        hint = "write the public halves of those there whose word counts: derive key show NAME prints one"
        raise InputErrors.one("the project trusts no key: nothing is taken from a cache", where=where, hint=hint)
    with LocalStore(store_folder(args)) as store:
        found = substitutes_of(root, store, note=tell)
        assert found is not None  # what it would lack is there
        with found:
            found.refresh()
            claims = found.count()
            brought = 0 if args.name is None else _bring(args, store, found)
        known = cache_status(store, caches, policy, revoked_here())
    if not known.is_sound:
        return _alarmed(args, known, policy, {"claims": claims, "brought": brought, "notes": said})
    if said and not brought and found.is_down:
        raise Unavailable("no cache could be used", hint="run it again when one answers")
    if wants_json(args):
        body: dict[str, Json] = {"claims": claims, "brought": brought, "notes": said}
        answer_record("cache-pull", args.name or "", body)
    else:
        answer(str(brought if args.name is not None else claims))
    note(_told(args.name, claims, brought))
    return 0


def _alarmed(args: argparse.Namespace, known: Status, policy: Policy, body: dict[str, Json]) -> int:
    """Tell the alarms that derive cache status tells; the answer is no."""
    from derive.cli.cache.alarms import alarm_texts, note_next

    names = {key.id: name for name, key in policy.keys.items()}
    if wants_json(args):
        caches: list[Json] = [one.document(names) for one in known.caches]
        conflicts: list[Json] = [one.document() for one in known.conflicts]
        answer_record("cache-pull", args.name or "", {**body, "caches": caches, "conflicts": conflicts})
    for text in alarm_texts(known, names):
        note(text)
    note_next(known)
    return 1


def _told(target: str | None, claims: int, brought: int) -> str:
    """Say what was read, and what came."""
    read = f"read logs, in which keys that count vouch for {count_text(claims, 'step')}"
    if target is None:
        return f"{read}; brought no outputs: derive cache pull TARGET brings those of a target"
    if brought:
        return f"{read}; brought {count_text(brought, 'output')} of {target}"
    return f"{read}; brought nothing of {target}: it lacks nothing that would be taken"


def _bring(args: argparse.Namespace, store: LocalStore, found: Substitutes) -> int:
    """Bring what a plan would take, and build nothing."""
    from derive.build.deriving import bring_vouched
    from derive.build.service import evaluate
    from derive.cli.progress import progress_for_stderr

    target = evaluate(project_of(args), args.name, args.platform)
    return bring_vouched(target, store, options_of(args), progress_for_stderr(), found)
