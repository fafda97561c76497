# SPDX-License-Identifier: Apache-2.0
"""Push an image into a registry, bytes as they are, read it back, and print its digest.

Edge: the store, the project, a registry, standard streams.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_of, store_folder, wants_json
from derive.cli.registries import add_registry, registries_of
from derive.store.local import LocalStore
from derive.words import count_text, size_text

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.oci.plan import PushPlan
    from derive.oci.push import Pushed

EXAMPLES = """\
  derive push team/serve:2026-11                      the project's default image
  derive push team/probe probe@linux/arm64            without a tag: by digest alone
  derive push team/serve:next sha256:3f1c0d9e2a7b --registry http://127.0.0.1:5000
  derive push team/serve:2026-11 --dry-run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("reference", metavar="REF", help="where to: repository or repository:tag, without a host")
    parser.add_argument("image", nargs="?", metavar="IMAGE", help="a name, name@platform or digest; it is derived")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")
    add_registry(parser)
    parser.add_argument("--mount-from", metavar="REPOSITORY", help="take blobs from this one where the registry can")
    parser.add_argument("--no-referrers", action="store_true", help="leave attestations and bills of materials here")
    parser.add_argument("--verify", choices=("sizes", "full"), default="sizes", help="full: read every blob back whole")
    parser.add_argument("--dry-run", action="store_true", help="ask what is there, print what would go, move nothing")


def run(args: argparse.Namespace) -> int:
    """Find the image, push it, answer with its digest."""
    from derive.build.existing import existing_image
    from derive.cli.transfers import Transfers
    from derive.net.http import Client, Settings
    from derive.oci.logins import SystemLogins
    from derive.oci.push import plan_push, push
    from derive.oci.reference import parse_repository, parse_target
    from derive.oci.remote import Remote

    target = parse_target(args.reference)
    source = parse_repository(args.mount_from, where="--mount-from") if args.mount_from else ""
    mirror = registries_of(args)[0]
    with ExitStack() as stack:
        store = stack.enter_context(LocalStore(store_folder(args), reading=True))
        progress = stack.enter_context(Transfers("pushed"))
        image = existing_image(store, lambda: project_of(args), args.image, args.platform)
        client = stack.enter_context(closing(Client(settings=Settings(), progress=progress)))
        remote = Remote(mirror, target.repository, client=client, logins=SystemLogins(progress=progress))
        plan = plan_push(store, remote, image, referrers=not args.no_referrers)
        if args.dry_run:
            return _show(args, plan)
        progress.expect(len(plan.missing), plan.missing_bytes)
        done = push(store, remote, plan, tag=target.tag, progress=progress, source=source, full=args.verify == "full")
    if wants_json(args):
        answer_record("push", args.reference, _body(done, args.verify, remote.place))
    else:
        answer(str(image))
    note(_summary(done))
    if done.before is not None:
        note(f"{target} was {done.before} before")
    return 0


def _show(args: argparse.Namespace, plan: PushPlan) -> int:
    from derive.cli.console import table

    if wants_json(args):
        answer_record("push-plan", args.reference, plan.body())
    else:
        rows = [(action, size_text(blob.size), str(blob.digest)) for action, blob in plan.lines()]
        rows += [("upload", size_text(len(one.data)), f"{one.digest}") for one in plan.documents]
        answer(table(rows, frozenset({1})))
    there = f"{len(plan.there)} there ({size_text(plan.there_bytes)})"
    note(f"would push {count_text(len(plan.missing), 'blob')} ({size_text(plan.missing_bytes)}); {there}")
    return 0


def _summary(done: Pushed) -> str:
    words = [f"pushed {count_text(done.count('uploaded'), 'blob')} ({size_text(done.size('uploaded'))})"]
    there = len(done.plan.there) + done.count("there")
    words.append(f"{there} there already ({size_text(done.plan.there_bytes + done.size('there'))})")
    if done.count("mounted"):
        words.append(f"{done.count('mounted')} mounted ({size_text(done.size('mounted'))})")
    if done.plan.referrers:
        by = "listed by the registry" if done.listed_by == "registry" else "listed under a tag"
        words.append(f"{count_text(len(done.plan.referrers), 'referrer')}, {by}")
    return "; ".join(words)


def _body(done: Pushed, verify: str, place: str) -> dict[str, Json]:
    plan = done.plan
    return {
        "digest": str(plan.image.digest),
        "registry": place,
        "uploaded_blobs": done.count("uploaded"),
        "uploaded_bytes": done.size("uploaded"),
        "mounted_blobs": done.count("mounted"),
        "mounted_bytes": done.size("mounted"),
        "there_blobs": len(plan.there) + done.count("there"),
        "there_bytes": plan.there_bytes + done.size("there"),
        "referrers": [str(one.digest) for one in plan.referrers],
        "listed_by": done.listed_by,
        "verified": verify,
        "tag_was": None if done.before is None else str(done.before),
    }
