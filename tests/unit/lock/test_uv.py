# SPDX-License-Identifier: Apache-2.0
"""What uv is asked for."""

from __future__ import annotations

import pytest

from derive.errors import HostRefuses
from derive.lock.uv import find_uv, uv_platform


def test_the_platform_is_the_newest_that_the_root_is_not_older_than() -> None:
    uv = find_uv()
    assert uv_platform(uv, "arm64", "2.36") == "aarch64-manylinux_2_36"
    assert uv_platform(uv, "amd64", "2.30") == "x86_64-manylinux_2_28"
    newest = int(uv_platform(uv, "amd64", "2.99").rpartition("_")[2])
    assert newest >= 39


def test_a_glibc_older_than_every_platform_is_told() -> None:
    with pytest.raises(HostRefuses):
        uv_platform(find_uv(), "amd64", "2.5")
