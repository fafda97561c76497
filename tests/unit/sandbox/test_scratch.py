# SPDX-License-Identifier: Apache-2.0
"""The folders of one run: closed to others, the same under every umask, and gone afterwards."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from derive.sandbox.scratch import scratch_folders
from derive.sandbox.spec import DEVICES


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_modes_do_not_depend_on_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with scratch_folders(tmp_path) as scratch:
            modes = [stat.S_IMODE(folder.stat().st_mode) for folder in (scratch.top, scratch.work, scratch.out)]
    finally:
        os.umask(before)
    assert modes == [0o700, 0o755, 0o755]


def test_nothing_is_left_also_after_an_exception(tmp_path: Path) -> None:
    def fail() -> None:
        with scratch_folders(tmp_path) as scratch:
            (scratch.work / "deep").mkdir()
            (scratch.work / "deep/x").write_bytes(b"")
            (scratch.work / "deep").chmod(0)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_private_device_nodes_are_made_by_root_alone(tmp_path: Path) -> None:
    with scratch_folders(tmp_path) as scratch:
        if os.geteuid() != 0:
            assert scratch.devices is None
            return
        if scratch.devices is None:
            pytest.skip("this machine lets root make no device nodes here")
        for name in map(os.fsdecode, DEVICES):
            status = (scratch.devices / name).stat()
            assert stat.S_ISCHR(status.st_mode)
            assert stat.S_IMODE(status.st_mode) == 0o666
            assert status.st_rdev == Path("/dev", name).stat().st_rdev
