# SPDX-License-Identifier: Apache-2.0
"""What the commands share that deploy: consents, the plan as an answer, and how a deploy ended.

Edge: the project, the nodes, standard streams.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from derive.cli.console import (
    answer,
    answer_record,
    note,
    print_error,
    project_root,
    store_folder,
    terminal_width,
    wants_json,
)
from derive.cli.options import something

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from derive.canonical import Json
    from derive.deploy.conduct import Ended
    from derive.deploy.plan import Plan
    from derive.deploy.service import Prepared, Wish
    from derive.errors import DeriveError


def add_consents(parser: argparse.ArgumentParser, *, replaces: bool = False) -> None:
    """Declare --apply, the site, and what has to be agreed to, each by an option of its own."""
    parser.add_argument("--site", type=something, metavar="FILE", help="the site's file (default: $DERIVE_SITE, ...)")
    parser.add_argument("--published", type=something, metavar="BRANCH", help="what counts as published: origin/main")
    parser.add_argument("--apply", action="store_true", help="do it: without, nothing is changed")
    if not replaces:
        parser.add_argument("--replace", action="store_true", help="what runs under the name or port may be replaced")
    parser.add_argument("--change-shape", action="store_true", help="nodes, TP, context or KV of what runs may change")
    parser.add_argument("--unqualified-shape", action="store_true", help="a shape with a waiver may run")
    parser.add_argument("--experiment", action="store_true", help="by the policy for experiments: promoted or not")


def wish_of(
    args: argparse.Namespace, release: str, shape: str | None, *, adopt: str | None = None, only_ahead: bool = False
) -> Wish:
    """Return what a person asked for."""
    from derive.deploy.consents import Consent
    from derive.deploy.service import Wish

    return Wish(
        root=project_root(args),
        store=store_folder(args),
        environ=os.environ,
        release=release,
        shape=shape,
        site=args.site,
        consents=frozenset(one for one in Consent if getattr(args, one.value[2:].replace("-", "_"), False)),
        branch=args.published,
        adopt=adopt,
        only_ahead=only_ahead,
    )


def show(args: argparse.Namespace, plan: Plan, failed: Sequence[DeriveError] = ()) -> int:
    """Print a plan, and everything that stands against it: exit 1 then.

    ``failed`` are nodes that could not be asked, so that the plan is by what was last seen: exit 3, where no more is
    known to stand against it.
    """
    from derive.deploy.node_errors import together
    from derive.deploy.refused import Refused
    from derive.deploy.show_plan import plan_text

    if wants_json(args):
        answer_record("deploy-plan", plan.served.release, plan.document())
    else:
        answer(plan_text(plan, terminal_width(sys.stdout)))
    if plan.problems():
        print_error(Refused(plan.problems()))
    if failed:
        print_error(together(failed))
        note("the plan is by what was last seen of the machines")
        if plan.is_unknown_alone():
            return 3
    return 1 if not plan.may_apply else 3 if failed else 0


def deploy(args: argparse.Namespace, prepared: Prepared, what: str) -> int:
    """Deploy, tell every step on standard error, and answer with how it ended."""
    from derive.deploy.service import apply
    from derive.records.who import who

    by = who(project_root(args))
    ended = asyncio.run(apply(prepared, note, by, what))
    if wants_json(args):
        answer_record("deploy", ended.deployed.served.release, _body(ended))
    elif ended.error is None:
        answer(_words(ended, only_ahead=prepared.asked.only_ahead))
    if ended.error is not None:
        print_error(ended.error)
        return ended.error.exit_code
    return 0


def _body(ended: Ended) -> dict[str, Json]:
    error = ended.error
    return {
        **ended.deployed.body(),
        "unchanged": ended.unchanged,
        "record": None if ended.record is None else str(ended.record),
        "evidence": None if ended.evidence is None else str(ended.evidence),
        "problems": []
        if error is None
        else [{"where": one.where, "message": one.message, "detail": list(one.detail)} for one in error.problems()],
    }


def _words(ended: Ended, *, only_ahead: bool) -> str:
    served = ended.deployed.served
    name = f"{served.release} ({served.shape}) {served.launch_bundle}"
    if ended.unchanged:
        return f"{name} runs already, as its bundle says"
    return f"{name} is on all nodes; nothing was stopped" if only_ahead else f"{name} serves"
