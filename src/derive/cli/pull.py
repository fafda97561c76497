# SPDX-License-Identifier: Apache-2.0
"""Pull an image from a registry into the store, keep it there, and print its digest.

Edge: the store, a registry, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer_record, note, project_of, store_folder, wants_json
from derive.cli.options import something
from derive.cli.outputs import answer_beside
from derive.cli.registries import add_registry, registries_of
from derive.errors import InputErrors, Unavailable
from derive.store.local import LocalStore
from derive.words import count_text, size_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from derive.canonical import Json
    from derive.cli.transfers import Transfers
    from derive.images.oci import Descriptor
    from derive.oci.pull import Pulled
    from derive.oci.reference import Reference

EXAMPLES = """\
  derive pull team/serve:2026-11
  derive pull team/serve@sha256:<64 hex digits>
  derive pull library/busybox:1.37 --platform linux/arm64
  derive pull team/serve:2026-11 --output serve.oci.tar
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("reference", metavar="REF", help="repository:tag or repository@sha256:..., without a host")
    parser.add_argument("--platform", metavar="PLATFORM", help="which image of an index of several")
    add_registry(parser)
    parser.add_argument("--no-referrers", action="store_true", help="leave attestations and bills of materials there")
    parser.add_argument("--offline", action="store_true", help="ask no registry: an image that is here already")
    parser.add_argument(
        "--output",
        type=something,
        metavar="PATH",
        help="also write an OCI layout: a folder, or a file ending in .tar; - prints it",
    )


def run(args: argparse.Namespace) -> int:
    """Pull, answer with the image's digest."""
    from derive.cli.transfers import Transfers
    from derive.oci.reference import parse_platform, parse_reference

    say = answer_beside(args, args.output)
    args.platform = parse_platform(args.platform) if args.platform is not None else None
    reference = parse_reference(args.reference)
    if args.output:
        from derive.images.layout import check_destination

        check_destination(args.output)
    with LocalStore(store_folder(args)) as store, Transfers("pulled") as progress:
        done = _pull(args, reference, store, progress)
        digest = done.image.manifest.digest
        if args.output:
            from derive.images.layout import export_image

            export_image(store, digest, reference.repository.rpartition("/")[2], args.output)
    moved, there = (sum(blob.size for blob in blobs) for blobs in (done.moved, done.there))
    if wants_json(args):
        body: dict[str, Json] = {
            "digest": str(digest),
            "platform": done.image.platform,
            "moved_blobs": len(done.moved),
            "moved_bytes": moved,
            "there_blobs": len(done.there),
            "there_bytes": there,
            "referrers": [str(one) for one in done.referrers],
        }
        answer_record("pull", args.reference, body)
    else:
        say(str(digest))
    words = f"pulled {count_text(len(done.moved), 'blob')} ({size_text(moved)})"
    words += f"; {len(done.there)} there already ({size_text(there)})"
    note(words + (f"; {count_text(len(done.referrers), 'referrer')}" if done.referrers else ""))
    return 0


def _pull(args: argparse.Namespace, reference: Reference, store: LocalStore, progress: Transfers) -> Pulled:
    from derive.build.fetching import recorder
    from derive.lock.mirrors import SystemMirrors
    from derive.net.fetch import Fetcher
    from derive.oci.pull import Puller
    from derive.oci.registry import Registries

    def expect(blobs: Sequence[Descriptor]) -> None:
        progress.expect(len(blobs), sum(blob.size for blob in blobs))

    if args.offline and reference.digest is None:
        raise _unnamed(reference, store)
    mirrors = () if args.offline else registries_of(args)
    options = {"progress": progress, "offline": args.offline}
    with Fetcher(store=store, mirrors=SystemMirrors(), record=recorder(store), **options) as fetcher:
        registries = Registries(mirrors=mirrors, client=fetcher.client, **options)
        wants = not args.no_referrers and not args.offline
        choose = _chooser(args, reference)
        return Puller(store, registries, fetcher).pull(reference, choose, args.platform, expect, referrers=wants)


def _unnamed(reference: Reference, store: LocalStore) -> Unavailable:
    """Return the error for a tag that nobody may be asked about: what it named when it was pulled is said."""
    from derive.oci.pull import PULLED

    pulled = [
        (name.removeprefix(f"{reference} "), digest)
        for kind, name, digest in store.database.roots()
        if kind == PULLED and name.startswith(f"{reference} ")
    ]
    return Unavailable(
        f"{reference} is a tag, of which a registry alone says what it names: offline, images go by their digest",
        detail=[f"pulled    {digest} ({platform})" for platform, digest in pulled],
        hint=f"name the digest that is meant: derive pull {reference.repository}@sha256:... --offline",
    )


def _chooser(args: argparse.Namespace, reference: Reference) -> Callable[[Sequence[str]], str]:
    """Return what chooses from an index: its only platform, else the one of the project's default image."""
    from derive.build.existing import usual_platform

    def choose(platforms: Sequence[str]) -> str:
        if len(platforms) == 1:
            return platforms[0]
        usual = usual_platform(lambda: project_of(args))
        if usual in platforms:
            return str(usual)
        hint = f"say one of them: --platform {platforms[0]}" if platforms else None
        detail = [f"it has    {', '.join(platforms) or 'none'}"]
        raise InputErrors.one(f"{reference} is an index of several images", detail=detail, hint=hint)

    return choose
