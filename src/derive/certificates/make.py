# SPDX-License-Identifier: Apache-2.0
"""From what was derived here to the certificate that says so.

Edge: reads the engine's own source, for its digest.
"""

from __future__ import annotations

from collections.abc import Iterable

from derive import __version__
from derive.build.engine import engine_digest
from derive.certificates.model import Certificate, Certified, Host, Maker
from derive.certificates.rederive import Rederived
from derive.releases.find import Known


def certificate_of(
    known: Known | None, found: Iterable[Rederived], host: Host, made_s: int, builders: tuple[Maker, ...] = ()
) -> Certificate:
    """Return the certificate of images that came out as expected, of a release or of none.

    ``builders`` are those that each derived all of it, none where this machine built every step twice.
    """
    release = None
    if known is not None:
        release = Certified(name=known.name, digest=known.release.digest, recipe=known.release.recipe)
    return Certificate(
        release=release,
        images={one.platform: one.image for one in found},
        engine=engine_digest(),
        version=__version__,
        host=host,
        made_s=made_s,
        builders=builders,
    )
