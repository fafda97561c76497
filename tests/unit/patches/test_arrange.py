# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.patches.arrange import series_text
from derive.patches.series import parse_series

SERIES = b"""\
# upstream: x
# licence: Apache-2.0

a.patch
# why b
b.patch -p1  # a word
c.patch

# the end
"""


def test_the_same_names_are_the_same_bytes() -> None:
    assert series_text(SERIES, ["a.patch", "b.patch", "c.patch"]) == SERIES
    assert series_text(SERIES.rstrip(), ["a.patch", "b.patch", "c.patch"]) == SERIES.rstrip()


def test_comments_go_with_the_patch_below_them() -> None:
    text = series_text(SERIES, ["b.patch", "new.patch", "a.patch"])
    assert text == (
        b"# upstream: x\n# licence: Apache-2.0\n\n# why b\nb.patch -p1  # a word\nnew.patch\na.patch\n\n# the end\n"
    )
    assert parse_series(text).names == ("b.patch", "new.patch", "a.patch")


def test_a_series_without_patches_takes_its_first_and_may_lose_its_last() -> None:
    empty = b"# licence: Apache-2.0\n"
    assert series_text(empty, ["a.patch"]) == empty + b"a.patch\n"
    assert series_text(empty + b"a.patch\n", []) == empty
