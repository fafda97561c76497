# SPDX-License-Identifier: Apache-2.0
"""An engine that was installed from a wheel is the engine of the checkout: the same files, so the same source."""

from __future__ import annotations

import zipfile
from pathlib import Path

from flit_core.wheel import make_wheel_in  # type: ignore[import-untyped]

from derive.engine.model import PROJECT, source_of
from derive.engine.source import engine_files
from support.cli import CHECKOUT


def test_a_wheel_holds_every_file_of_the_source_and_no_other(tmp_path: Path) -> None:
    made = make_wheel_in(CHECKOUT / "pyproject.toml", tmp_path)
    with zipfile.ZipFile(made.file) as wheel:
        packed = {name.removeprefix("derive/"): wheel.read(name) for name in wheel.namelist() if name[:7] == "derive/"}
    assert f"{PROJECT}lock/root.lock.json" in packed
    assert source_of(packed) == source_of(engine_files())
