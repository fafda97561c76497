# SPDX-License-Identifier: Apache-2.0
"""Derives images anew, every step of them twice, and says where they are not as a release has them.

Edge: the store, through the services below it; the clock.

A release has several shapes: a check that this engine made in this store within the hour, since the machine started,
is taken as it is, and its age is told. Whoever signs takes only what was derived for the same signers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from derive.build.check import Difference
from derive.build.engine import engine_digest
from derive.build.execute import Progress
from derive.build.images import derive_image
from derive.build.service import Options, evaluate
from derive.canonical import Digest, digest_document
from derive.certificates.model import CertifiedImage, Host
from derive.derivations.model import Derivation, Platform, closure
from derive.project import Project
from derive.schedule.model import HERE
from derive.store.local import LocalStore

_FRESH_S = 3600
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rederived:
    """What came of deriving a platform's image, and what was expected of it (None: nothing was).

    ``age_s`` is how long ago that was: 0 where it was done now.
    """

    platform: str
    image: CertifiedImage
    expected: Digest | None
    differences: tuple[Difference, ...] = ()
    age_s: int = 0

    @property
    def holds(self) -> bool:
        """Say whether it came out as expected, both times."""
        return not self.differences and self.expected in (None, self.image.digest)


def rederive(
    project: Project,
    wanted: Mapping[Platform, tuple[str, Digest | None]],
    store: LocalStore,
    options: Options,
    progress: Progress,
    *,
    signers: str = "",
) -> tuple[Rederived, ...]:
    """Derive images by platform (name, and the digest that is expected), each step twice; raises what steps raise.

    ``signers`` says for whom, where somebody signs that they derived it: another's check is then none of theirs.

    What images share is done twice, and not twice for each.
    """
    found = []
    twice: set[Digest] = set()
    options = replace(options, on=(HERE,))  # what is said of this machine is of no other, whatever the user configured
    for platform, (name, expected) in sorted(wanted.items()):
        target = evaluate(project, f"image:{name}", platform)
        keys, now_s = {_key(target, signers), _key(target, "")}, int(time.time())
        steps = {one.id for one in closure(target) if one.fixed is None}
        before = _before(store, _key(target, signers), now_s)
        if before is None:
            done = derive_image(project, name, platform, store, options, progress, check=True, but=twice)
            manifest, differences, age_s = done.manifest, done.differences, 0
            if not differences:
                twice |= steps
                for key in keys:
                    store.database.set_memo(key, f"{manifest.hex} {now_s}")
        else:
            (manifest, age_s), differences = before, ()
        image = CertifiedImage(name=name, digest=manifest, derivation=target.id, steps=len(steps))
        found.append(Rederived(platform=platform, image=image, expected=expected, differences=differences, age_s=age_s))
    return tuple(found)


def signers_of(keys: Iterable[Digest], host: Host) -> str:
    """Return what tells those apart for whom a check is made: their keys, and the machine that they say this is."""
    return " ".join([*sorted(key.hex for key in keys), host.id.hex])


def _key(target: Derivation, signers: str) -> Digest:
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        boot = str(time.time_ns())  # where nothing tells one start from another, no check is remembered
    document = {"derive": "checked/2", "derivation": target.id.hex, "engine": engine_digest().hex, "boot": boot}
    return digest_document({**document, "signers": signers})


def _before(store: LocalStore, key: Digest, now_s: int) -> tuple[Digest, int] | None:
    """Return the image of a check that was made lately, and its age; None where there was none."""
    digest, _, made = (store.database.memo(key) or "").partition(" ")
    if not made.isdecimal() or not 0 <= now_s - int(made) <= _FRESH_S:
        return None
    manifest = Digest(digest)
    return (manifest, now_s - int(made)) if store.has_blob(manifest) else None
