# SPDX-License-Identifier: Apache-2.0
"""The digest of the image ``probe`` on each platform: what every checkout of this commit derives, anywhere."""

from __future__ import annotations

import json

from support.derived import Derived
from support.golden import check_golden

ADVICE = """\
a golden digest changes only with a builder version, lock or content change named in the same commit:
  if you changed what a builder writes, give it a new version in derive.build.builders, and say so in CHANGELOG.md
  if you changed lock/, patches/, derivations/, kernels/ or images/, name the change, and accept
  if you changed neither, find the layer that moved: derive plan probe --all, derive image probe --check"""


def test_the_image_has_the_digests_that_it_had(derived: Derived) -> None:
    check_golden("probe.json", json.dumps(derived.digests, indent=1, sort_keys=True) + "\n", advice=ADVICE)
