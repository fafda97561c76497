# SPDX-License-Identifier: Apache-2.0
"""Where an audit works unless a person names a folder."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from derive.cli.audit import _audits


def test_it_is_beside_the_store_and_its_path_is_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _audits(Namespace(store="deep/../store/")) == tmp_path / "audits"
