# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib

import pytest

from derive.canonical import sha256
from derive.images.split import is_native, shared_output, shared_place
from derive.trees.listing import DIRECTORY, File, Symlink

FILE = File(executable=False, size=0, sha256=sha256(b""))


def test_a_package_s_place_is_its_name_s_hash_and_no_other_package_matters() -> None:
    assert shared_place("numpy", 12) == int(hashlib.sha256(b"numpy").hexdigest(), 16) % 12 + 1
    assert {shared_place(f"p{number}", 3) for number in range(50)} == {1, 2, 3}
    assert shared_output(7) == "shared 07"


@pytest.mark.parametrize(
    ("path", "patterns", "fits"),
    [
        (b"a/b.so", ("*.so",), True),
        (b"a/b.so.1", ("*.so",), False),
        (b"a/b.so.1", ("*.so", "*.so.*"), True),
        (b"a/b.SO", ("*.so",), False),
        (b"a/bin/x", ("*/bin/*",), True),
        (b"bin/x", ("*/bin/*",), False),
        (b"a.so/b.py", ("*.so",), False),
        (b"x", (), False),
    ],
)
def test_a_pattern_is_matched_against_the_whole_path(path: bytes, patterns: tuple[str, ...], *, fits: bool) -> None:
    assert is_native(path, FILE, patterns) is fits


def test_a_link_fits_by_its_own_path_and_an_empty_folder_never() -> None:
    assert is_native(b"a.so", Symlink(b"b.py"), ("*.so",))
    assert not is_native(b"a.py", Symlink(b"b.so"), ("*.so",))
    assert not is_native(b"a.so", DIRECTORY, ("*.so",))
