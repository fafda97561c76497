# SPDX-License-Identifier: Apache-2.0
"""Certifies a release: derives it, every step twice or by several builders, signs that it came out as recorded.

Edge: the store, the project's records, through the services below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from derive.build.execute import Progress
from derive.build.service import Options
from derive.certificates.builders import Agreed, Builder, derive_by
from derive.certificates.folder import attach_certificate, write_certificate
from derive.certificates.make import certificate_of
from derive.certificates.model import Certificate, Host
from derive.certificates.rederive import Rederived, rederive, signers_of
from derive.derivations.model import Platform
from derive.errors import CheckFailed
from derive.promotion.content import content_of
from derive.releases.find import Known
from derive.store.local import LocalStore
from derive.trust.dsse import sign
from derive.trust.keys import SigningKey
from derive.trust.statement import PAYLOAD_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A release that was certified: what was signed, what was derived for it, the files, and where it was derived.

    ``here`` says that it was the working tree, and no checkout.
    """

    certificate: Certificate
    found: tuple[Rederived, ...]
    files: tuple[Path, ...]
    here: bool


def certify_release(
    root: Path,
    known: Known,
    store: Path,
    platforms: Sequence[Platform],
    keys: Sequence[SigningKey],
    host: Host,
    made_s: int,
    options: Options,
    progress: Progress,
    *,
    attach: bool,
) -> Done:
    """Derive, sign and write one file for each key.

    Raises:
        CheckFailed: when an image comes out otherwise, either time: nothing is signed.
        Missing: when content of the release is nowhere.
    """
    images = known.release.images
    wanted = {one: (images[one].name, images[one].digest) for one in platforms}
    with content_of(root, known, store) as content, LocalStore(store) as opened:
        signers = signers_of((key.public.id for key in keys), host)
        found = rederive(content.project, wanted, opened, options, progress, signers=signers)
        _refuse(known, found)
        certificate = certificate_of(known, found, host, made_s)
        files = []
        for key in keys:
            envelope = sign(PAYLOAD_TYPE, certificate.encoded(), (key,))
            files.append(write_certificate(root, known.name, key.public.id, envelope))
            for one in certificate.images.values() if attach else ():
                attach_certificate(opened, one.digest, envelope)
        return Done(certificate=certificate, found=found, files=tuple(files), here=content.here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A release that several builders derived: what each got; and, where keys signed that, what, and the files."""

    agreed: Agreed
    certificate: Certificate | None
    files: tuple[Path, ...]
    here: bool


def certify_by(
    builders: Sequence[Builder],
    root: Path,
    known: Known,
    store: Path,
    folder: Path,
    platforms: Sequence[Platform],
    keys: Sequence[SigningKey],
    host: Host,
    made_s: int,
    options: Options,
    progress: Progress,
    say: Callable[[str], None],
) -> Compared:
    """Have builders derive it, each into a store below ``folder``; where all agree, sign and write a file for each key.

    Raises:
        CheckFailed: when all agree, and on another image than is recorded: nothing is signed.
        Missing: when content of the release is nowhere.
        HostRefuses, Unavailable, BuildFailed: when a builder cannot, or a step fails.
    """
    images = known.release.images
    wanted = {one: (images[one].name, images[one].digest) for one in platforms}
    with content_of(root, known, store) as content:
        agreed = derive_by(builders, content.project, wanted, folder, host, known.digest, options, progress, say)
        if agreed.first is not None:
            return Compared(agreed=agreed, certificate=None, files=(), here=content.here)
        _refuse(known, agreed.found)
        certificate = certificate_of(known, agreed.found, host, made_s, agreed.makers)
        files = [
            write_certificate(root, known.name, key.public.id, sign(PAYLOAD_TYPE, certificate.encoded(), (key,)))
            for key in keys
        ]
        return Compared(agreed=agreed, certificate=certificate, files=tuple(files), here=content.here)


def _refuse(known: Known, found: Sequence[Rederived]) -> None:
    """Raise CheckFailed unless every image came out as the release has it, both times."""
    wrong = [one for one in found if not one.holds]
    if not wrong:
        return
    detail = []
    for one in wrong:
        detail.append(f"{one.platform:<12}  expected {one.expected}, got {one.image.digest}")
        detail += [f"differs       {each.derivation}: {each.path or 'its one file'}" for each in one.differences]
    raise CheckFailed(
        f"{known.name} does not come out here as it is recorded, and nothing was signed",
        detail=detail,
        hint=f"find the first step that differs: derive audit {known.name}",
    )
