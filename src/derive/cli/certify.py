# SPDX-License-Identifier: Apache-2.0
"""Certify a release under your key, having derived it, every step twice or by several builders; or count who did.

Edge: stores, the project and its records, your keys, this machine's facts, executors, standard streams.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_root, store_folder, table, wants_json
from derive.cli.options import something
from derive.cli.running import options_of
from derive.errors import InputErrors
from derive.words import count_text, duration_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from derive.canonical import Json
    from derive.certificates.judge import Standing
    from derive.derivations.model import Platform
    from derive.releases.find import Known

EXAMPLES = """\
  derive certify probe-1 --key build       this builder derives it here, and signs that it did
  derive certify probe-1 --need 2          do two builders, on unlike hosts, say the same?
  derive certify probe-1 --builders here,spark --key build
                                           each derives it from nothing; where all agree, this key signs that
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("release", type=something, metavar="RELEASE", help="a release: its name or digest")
    parser.add_argument("--key", action="append", default=[], metavar="NAME", help="derive, and sign with this key")
    parser.add_argument(
        "--platform",
        action="append",
        choices=("linux/amd64", "linux/arm64"),
        help="certify this image alone; may be given again (default: all of the release)",
    )
    parser.add_argument("--attach", action="store_true", help="also attach it to the images, as attestations are")
    parser.add_argument(
        "--builders",
        type=something,
        metavar="A,B",
        help="executors of your settings, or `here`: each derives it from nothing, and all outputs are compared",
    )
    parser.add_argument(
        "--keep", type=something, metavar="DIR", help="with --builders: leave their stores in this folder"
    )
    parser.add_argument("--need", type=_positive, metavar="K", help="sign nothing: do K builders say the same?")
    parser.add_argument("--any-hosts", action="store_true", help="with --need: count builders of one host, too")
    parser.add_argument("--offline", action="store_true", help="fetch nothing; with --need: look at records/ alone")


def run(args: argparse.Namespace) -> int:
    """Sign, or count."""
    if args.builders is not None:
        return _by_builders(args)
    if args.keep is not None:
        raise InputErrors.one("--keep is for --builders", hint="leave it out: what is derived here is in the store")
    if bool(args.key) == (args.need is not None):
        hint = "sign with --key NAME (derive key list), or count with --need K"
        raise InputErrors.one("either sign or count" if args.key else "neither a key nor a number", hint=hint)
    if args.need is not None and (args.attach or args.platform):
        raise InputErrors.one("--need signs nothing", hint="leave out --attach and --platform")
    if args.key and args.any_hosts:
        raise InputErrors.one("--any-hosts is for counting", hint="leave it out, or --key")
    root = project_root(args)
    known = _known(root, args.release)
    return _sign(args, root, known) if args.key else _count(args, root, known)


def _known(root: Path, release: str) -> Known:
    """Return the release, where all records are as they were written; raises NotHeld with what is not."""
    from derive.errors import RecordEdited, RecordGone
    from derive.records.held import NotHeld, vouched
    from derive.releases.find import find_release

    refused = vouched(root)
    try:
        known = find_release(root, release)
    except (RecordEdited, RecordGone) as error:
        raise NotHeld(error.problems()) from error
    if refused is not None:
        note(f"records are not held against git: {refused}")
    return known


def _sign(args: argparse.Namespace, root: Path, known: Known) -> int:
    from derive.certificates.gather import require_counting
    from derive.certificates.host import host_here
    from derive.certificates.service import certify_release
    from derive.cli.progress import progress_for_stderr
    from derive.trust.keyring import user_keyring

    keys = user_keyring().usable(args.key)
    for key in require_counting(root, keys):  # said before hours of work, not after them
        note(f"the key {key} is no builder's here: what it signs counts once `builders` of [tool.derive.trust] name it")
    done = certify_release(
        root,
        known,
        store_folder(args),
        list(_platforms(args, known)),
        keys,
        host_here(known.digest, os.environ),
        int(time.time()),
        options_of(args),
        progress_for_stderr(),
        attach=args.attach,
    )
    shown = [str(path.relative_to(root)) for path in done.files]
    if wants_json(args):
        steps: dict[str, Json] = {one.platform: one.image.steps for one in done.found}
        body: dict[str, Json] = {"release": str(known.digest), "files": shown, "steps": steps}
        answer_record("certify", known.name, {**body, "host": done.certificate.host.document()})
    else:
        answer("\n".join(shown))
    if not done.here:
        note(f"the working tree is not what {known.name} was made of: a checkout of it was derived")
    for one in done.found:
        ago = f", {duration_text(one.age_s * 1_000_000_000)} ago" if one.age_s else ""
        note(f"derived {one.image.digest} for {one.platform}, {count_text(one.image.steps, 'step')} twice{ago}")
    note(f"commit it: git add {' '.join(shown)} && git commit -m 'Certify {known.name}'")
    return 0


def _by_builders(args: argparse.Namespace) -> int:
    from derive.certificates.builders import chosen_builders
    from derive.cli.certify_builders import compare_builders

    for option, given in (("--need", args.need), ("--any-hosts", args.any_hosts), ("--attach", args.attach)):
        if given:
            raise InputErrors.one(f"{option} and --builders do not go together", hint="leave one of them out")
    builders = chosen_builders(args.builders, os.environ)
    root = project_root(args)
    known = _known(root, args.release)
    return compare_builders(args, builders, root, known, list(_platforms(args, known)))


def _platforms(args: argparse.Namespace, known: Known) -> Iterator[Platform]:
    for platform in args.platform or known.release.images:
        if platform not in known.release.images:
            has = ", ".join(sorted(known.release.images))
            raise InputErrors.one(f"{known.name} has no image for {platform}", hint=f"it has {has}")
        yield platform


def _count(args: argparse.Namespace, root: Path, known: Known) -> int:
    from derive.certificates.gather import stand_here
    from derive.certificates.show import body_of, rows_of

    store = None if args.offline else store_folder(args)
    found = stand_here(root, known, store, need=args.need, unlike_hosts=not args.any_hosts)
    if wants_json(args):
        answer_record("certify-count", known.name, body_of(found))
    elif found.judged or found.unread:
        answer(table([("certificate", "signed by", "worth", "says"), *rows_of(found)]))
    _tell(known, found)
    return 0 if found.holds else 1


def _tell(known: Known, found: Standing) -> None:
    from derive.certificates.judge import lacking

    for text in found.likeness:
        note(text)
    for text in found.alarms:
        note(f"ALARM: {text}; the release says otherwise")
    for text in lacking(found):
        note(f"not enough: {text}")
    if found.holds:
        note(f"{known.name}: {count_text(found.need, 'builder')} or more say the same of every image")


def _positive(text: str) -> int:
    import argparse

    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"not a whole number above 0: {text!r}")
    return int(text)
