# SPDX-License-Identifier: Apache-2.0
"""Derive an image and print its digest on standard output.

Edge: the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.build.memo import keep_recalled, memo_key, recall, remember
from derive.cli.console import answer_record, note, project_of, store_folder, wants_json
from derive.cli.exporting import assembled, backend_option
from derive.cli.options import something
from derive.cli.outputs import answer_beside
from derive.cli.running import running_of, running_options
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from derive.build.images import DerivedImage
    from derive.canonical import Json
    from derive.derivations.model import Platform
    from derive.project import Project

EXAMPLES = """\
  derive image
  derive image probe --platform linux/arm64
  derive image probe --check
  derive image probe --output probe.oci.tar
  derive image probe --backend buildkit
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the image (default: the project's default image)")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")
    parser.add_argument("--check", action="store_true", help="build every step again and compare each output")
    running_options(parser)
    backend_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan, as derive plan does, and do nothing")
    parser.add_argument(
        "--output",
        type=something,
        metavar="PATH",
        help="also write an OCI layout: a folder, or a file ending in .tar; - prints it",
    )


def run(args: argparse.Namespace) -> int:
    """Derive, answer with the digest."""
    if args.dry_run:
        from derive.cli.plan import run as print_plan

        return print_plan(args)
    say = answer_beside(args, args.output)
    project = project_of(args)
    name, platform = _wanted(args, project)
    with LocalStore(store_folder(args)) as store:
        key = memo_key(project, name, platform)
        if args.output or args.backend:
            store.protect(())  # a collection must not take what is about to be written out, or sent
        anew = args.check or (args.no_cache and store.database.has_substituted())
        manifest = None if anew else recall(store, key, project.root)
        if manifest is not None:
            keep_recalled(store, name, manifest)
        else:
            done = _derive(args, project, name, platform, store)
            if done.differences:
                from derive.cli.differences import tell_differences

                tell_differences(done.differences, store)
                if wants_json(args):
                    differences = [difference.document() for difference in done.differences]
                    answer_record("image", name, {"digest": str(done.manifest), "differences": differences})
                return 1
            manifest = done.manifest
            remember(store, key, project.root, manifest)
        more: Mapping[str, Json] = {}
        if args.backend:
            manifest, more = assembled(args.backend, project, name, platform, store, manifest)
        if args.output:
            from derive.images.layout import export_image

            export_image(store, manifest, name, args.output)
    if wants_json(args):
        checked: Mapping[str, Json] = {"differences": []} if args.check else {}
        answer_record("image", name, {"digest": str(manifest), **checked, **more})
    else:
        say(str(manifest))
    return 0


def _wanted(args: argparse.Namespace, project: Project) -> tuple[str, Platform | None]:
    """Return the image's name and platform; the quick way for a bare name, which nearly every one is."""
    name = project.settings.default_image if args.name is None else args.name
    if not name or any(sign in name for sign in ":@.") or "0" <= name[:1] <= "9":
        from derive.build.service import named

        wanted = named(name, args.platform)
        return (name if wanted.kind == "drv" else wanted.name), wanted.platform
    return name, args.platform


def _derive(
    args: argparse.Namespace, project: Project, name: str, platform: Platform | None, store: LocalStore
) -> DerivedImage:
    from derive.build.images import derive_image
    from derive.cli.progress import progress_for_stderr

    options = running_of(args)
    done = derive_image(project, name, platform, store, options, progress_for_stderr(), check=args.check)
    if args.check:
        note(f"checked {done.checked} steps: {len(done.differences) or 'no'} differences")
    return done
