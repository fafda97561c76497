# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N999 - the command is called import
"""Bring what a closure file holds into the store, when keys that the project trusts have signed it.

Edge: the store, the project, your revoked keys, standard streams.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, path_text, store_folder, wants_json
from derive.cli.trusting import require_policy
from derive.store.local import LocalStore
from derive.words import count_text, size_text

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.store.closure_import import Imported
    from derive.store.closure_read import ClosureFile

EXAMPLES = """\
  derive store import probe.closure
  derive store import probe.closure --unsigned     take it whoever made it: check it otherwise
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", metavar="FILE", help="what derive store export wrote")
    parser.add_argument("--unsigned", action="store_true", help="look at no signature")


def run(args: argparse.Namespace) -> int:
    """Check, import; answer with the digests of what it was exported for."""
    from derive.store.closure_import import import_closure
    from derive.store.closure_read import open_closure

    with open_closure(Path(args.file)) as file:
        signers = () if args.unsigned else _signers(args, file)
        with LocalStore(store_folder(args)) as store:
            done = import_closure(store, file)
        level = file.closure.level.value
    if wants_json(args):
        answer_record("store-import", path_text(Path(args.file)), _body(done, str(file.digest), level, signers))
    else:
        answer("\n".join(str(target.output.digest) for target in done.targets))
    known = f"{count_text(done.known_blobs, 'blob')} and {count_text(done.known_trees, 'tree')} not needed"
    brought = f"{count_text(done.blobs, 'blob')} ({size_text(done.size)}) and {count_text(done.trees, 'tree')} imported"
    note(f"{brought}, {known}; signed by {', '.join(signers)}" if signers else f"{brought}, {known}")
    return 0


def _signers(args: argparse.Namespace, file: ClosureFile) -> tuple[str, ...]:
    from derive.trust.keyring import user_keyring
    from derive.trust.policy import judge, require_trusted

    policy = require_policy(args, "say --unsigned")
    judgement = judge(file.envelope, policy, user_keyring().revoked().keys())
    require_trusted(judgement, args.file)
    return judgement.trusted


def _body(done: Imported, digest: str, level: str, signers: tuple[str, ...]) -> dict[str, Json]:
    targets: list[Json] = [{"name": one.name, "host": one.host, "output": str(one.output)} for one in done.targets]
    return {
        "digest": digest,
        "level": level,
        "signed_by": signers,
        "targets": targets,
        "imported_blobs": done.blobs,
        "imported_bytes": done.size,
        "imported_trees": done.trees,
        "realisations": done.realisations,
    }
