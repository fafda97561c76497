# SPDX-License-Identifier: Apache-2.0
"""``derive certify --builders``: has several builders derive a release, and tells what each got.

Edge: stores, the project's records, your keys, this machine's facts, executors, standard streams.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, store_folder, table, wants_json
from derive.cli.running import options_of
from derive.errors import HostRefuses, InputErrors
from derive.words import count_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from derive.certificates.builders import Agreed, Builder
    from derive.certificates.compared import Row
    from derive.certificates.service import Compared
    from derive.derivations.model import Platform
    from derive.releases.find import Known


def compare_builders(
    args: argparse.Namespace, builders: Sequence[Builder], root: Path, known: Known, platforms: Sequence[Platform]
) -> int:
    """Derive by each, compare, sign where all agree and keys are given; return 0 where they agree, 1 where not."""
    from derive.certificates.gather import require_counting
    from derive.certificates.host import host_here
    from derive.certificates.service import certify_by
    from derive.cli.progress import progress_for_stderr
    from derive.trust.keyring import user_keyring

    keys = user_keyring().usable(args.key) if args.key else ()
    for key in require_counting(root, keys):  # said before hours of work, not after them
        note(f"the key {key} is no builder's here: what it signs counts once `builders` of [tool.derive.trust] name it")
    host = host_here(known.digest, os.environ)
    store = store_folder(args)
    with _folder(args.keep, store) as folder:
        done = certify_by(
            builders,
            root,
            known,
            store,
            folder,
            platforms,
            keys,
            host,
            int(time.time()),
            options_of(args),
            progress_for_stderr(),
            note,
        )
    files = [str(path.relative_to(root)) for path in done.files]
    if wants_json(args):
        _record(known, done, files)
    elif done.agreed.first is not None:
        answer(table([("platform", "derivation", "output", *done.agreed.builders, ""), *_differing(done.agreed)]))
    elif files:
        answer("\n".join(files))
    if not done.here:
        note(f"the working tree is not what {known.name} was made of: a checkout of it was derived")
    if done.agreed.first is not None:
        _tell_difference(known, done.agreed, done.agreed.first, kept=args.keep)
        return 1
    _tell(known, done, files)
    return 0


@contextmanager
def _folder(keep: str | None, store: Path) -> Iterator[Path]:
    """Lend a folder for stores: beside the store, and gone afterwards, or one that is to be kept."""
    from derive.trees.materialise import remove_folder

    try:
        if keep is not None:
            folder = Path(os.path.abspath(keep))  # noqa: PTH100 - links stay links
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                hint = "each builder begins with nothing: name a folder that is new or empty"
                raise InputErrors.one("not empty", where=f"--keep {keep}", hint=hint)
            yield folder
            return
        folder = Path(tempfile.mkdtemp(prefix="derive-builders-", dir=store.absolute().parent))
    except OSError as error:
        place = keep or str(store.absolute().parent)
        raise HostRefuses(
            f"cannot be written: {(error.strerror or '').lower()}", where=place, hint="name another: --keep DIR"
        ) from error
    try:
        yield folder
    finally:
        remove_folder(folder)


def _differing(agreed: Agreed) -> Iterator[tuple[str, ...]]:
    for row in agreed.rows:
        if row.differs:
            got = ("nothing" if one is None else one.digest.short for one in row.got)
            told = "" if not row.is_first else "of itself: all its inputs are equal"
            yield row.platform, row.name, row.output, *got, told


def _tell_difference(known: Known, agreed: Agreed, first: Row, *, kept: str | None) -> None:
    note(f"{known.name}: {' and '.join(agreed.builders)} do not get the same; nothing was signed")
    note(f"the first step that differs is {first.name}, output {first.output}, for {first.platform}")
    for line in agreed.shown:
        note(f"  {line}")
    if kept is None:
        note("to look at both: the same with --keep DIR leaves their stores")


def _tell(known: Known, done: Compared, files: Sequence[str]) -> None:
    agreed = done.agreed
    for name, maker in zip(agreed.builders, agreed.makers, strict=True):
        what = "this machine" if maker.buildkit is None else f"a worker of BuildKit {maker.buildkit}"
        note(
            f"{name}: {what}, {maker.architecture}, CPU {maker.cpu}, kernel {maker.kernel};"
            f" ran {count_text(maker.steps, 'step')}"
        )
    kernels = len({maker.boot for maker in agreed.makers})
    if kernels < len(agreed.makers):
        note(
            f"{count_text(kernels, 'kernel')} under {len(agreed.makers)} builders: those of one kernel are one machine"
        )
    note(
        f"{' and '.join(agreed.builders)}: {count_text(len(agreed.rows), 'output')}, all equal, and as {known.name} has"
    )
    if done.certificate is None or not files:
        note("nothing was signed: sign with --key NAME")
        return
    if not done.certificate.host_is_known:
        note("workers alone ran programs, whose machines nobody knows: it counts where no other certificate does")
    note("whoever signs here vouches for all of it: it counts as one builder, on one host")
    note(f"commit it: git add {' '.join(files)} && git commit -m 'Certify {known.name}'")


def _record(known: Known, done: Compared, files: Sequence[str]) -> None:
    agreed = done.agreed
    answer_record(
        "certify-builders",
        known.name,
        {
            "release": str(known.digest),
            "same": agreed.first is None,
            "builders": [
                {"name": name, **({} if not agreed.makers else agreed.makers[at].document())}
                for at, name in enumerate(agreed.builders)
            ],
            "outputs": [row.document(agreed.builders) for row in agreed.rows],
            "files": list(files),
        },
    )
