# SPDX-License-Identifier: Apache-2.0
"""Signs, as a builder on another host, that a release came out as recorded: run on the lab's head, in its project.

    python certificate.py RELEASE KEY

Nothing is built for it, which is what ``derive certify`` would do: a lab is about what comes after.

Edge: the project in the working directory, the user's keys.
"""

from __future__ import annotations

import sys
from pathlib import Path

from derive.certificates.folder import write_certificate
from derive.certificates.host import host_here
from derive.certificates.model import Certificate, Certified, CertifiedImage
from derive.releases.find import find_release
from derive.trust.dsse import sign
from derive.trust.keyring import Keyring
from derive.trust.statement import PAYLOAD_TYPE

MADE_S = 1_790_000_000


def main(release: str, key: str) -> None:
    """Write the certificate."""
    project = Path.cwd()
    known = find_release(project, release)
    images: dict[str, CertifiedImage] = {
        platform: CertifiedImage(name=one.name, digest=one.digest, derivation=one.derivation, steps=1)
        for platform, one in known.release.images.items()
    }
    said = Certificate(
        release=Certified(name=known.name, digest=known.digest, recipe=known.release.recipe),
        images=images,
        engine=known.release.engine.digest,
        version=known.release.engine.version,
        host=host_here(known.digest, {}),
        made_s=MADE_S,
    )
    signing = Keyring(Path.home() / ".local/share/derive").signing_key(key)
    write_certificate(project, known.name, signing.public.id, sign(PAYLOAD_TYPE, said.encoded(), (signing,)))


if __name__ == "__main__":
    main(*sys.argv[1:])
