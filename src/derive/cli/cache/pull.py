# SPDX-License-Identifier: Apache-2.0
"""Read what is new in the logs of trusted keys; with a target, bring what of it others vouch for.

Edge: the store, the project, registries, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_of, project_root, store_folder, wants_json
from derive.cli.running import options_of
from derive.errors import CheckFailed, InputErrors, Unavailable
from derive.store.local import LocalStore
from derive.words import count_text

if TYPE_CHECKING:
    import argparse

    from derive.cache.substitute import Substitutes
    from derive.canonical import Json

EXAMPLES = """\
  derive cache pull              the logs alone: what derive plan then says needs no network
  derive cache pull probe        and the outputs of an image that others vouch for; nothing is built
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", nargs="?", metavar="TARGET", help="an image or a derivation of the project")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as its file says")


def run(args: argparse.Namespace) -> int:
    """Read logs, bring outputs; answer with what is vouched for, or what came."""
    from derive.cache.service import substitutes_of

    said: list[str] = []

    def tell(message: str) -> None:
        said.append(message)
        note(message)

    root = project_root(args)
    with LocalStore(store_folder(args)) as store:
        found = substitutes_of(root, store, note=tell)
        if found is None:
            hint = "derive cache add REF, and [tool.derive.trust.keys] in pyproject.toml"
            raise InputErrors.one("no cache is named, or the project trusts no key", hint=hint)
        with found:
            found.refresh()
            claims = found.count()
            brought = 0 if args.name is None else _bring(args, store, found)
    if found.alarmed:
        raise CheckFailed("a log cannot be right", hint="derive cache status says which")
    if said and not brought and found.is_down:
        raise Unavailable("no cache could be used", hint="run it again when one answers")
    if wants_json(args):
        body: dict[str, Json] = {"claims": claims, "brought": brought, "notes": said}
        answer_record("cache-pull", args.name or "", body)
    else:
        answer(str(brought if args.name is not None else claims))
    note(_told(args.name, claims, brought))
    return 0


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
