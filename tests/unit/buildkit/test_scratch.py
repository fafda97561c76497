# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from derive.buildkit.scratch import scratch_folder


@pytest.mark.parametrize("name", ["plain", "a b", "who@where", "a:b", "a,b", 'a"b', "a\nb"])
def test_a_folder_is_lent_by_a_path_that_buildx_reads_whole_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with scratch_folder(tmp_path / name, "it-") as folder:
        (folder / "file").write_text("x")
        (made,) = (tmp_path / name).iterdir()
        assert (made / "file").read_text() == "x"
        assert not set('@:,"\n') & set(str(folder))
    assert list((tmp_path / name).iterdir()) == []
    assert not folder.is_symlink()
