# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.patches.identity import series_document
from derive.patches.load import LoadedSeries, series_of

CHANGE = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
SERIES = "# licence: MIT\n0001-a.patch\n0002-b.patch\n"


def load_series(folder: Path, where: str) -> LoadedSeries:
    return series_of({path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}, where)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "series").write_text(SERIES)
    (tmp_path / "0001-a.patch").write_text("Subject: one\n\n" + CHANGE)
    (tmp_path / "0002-b.patch").write_text(CHANGE.replace("+c", "+d").replace("-b", "-c"))
    (tmp_path / "README.md").write_text("why")
    return tmp_path


def problems(folder: Path) -> list[tuple[str, str]]:
    with pytest.raises(InputErrors) as caught:
        load_series(folder, "patches/up")
    return [(problem.where, problem.message) for problem in caught.value.problems()]


def test_a_folder_is_read_in_the_order_of_its_series(folder: Path) -> None:
    loaded = load_series(folder, "patches/up")
    assert loaded.series.licence == "MIT"
    assert [patch.name for patch in loaded.patches] == ["0001-a.patch", "0002-b.patch"]


def test_a_comment_of_the_series_moves_no_identity(folder: Path) -> None:
    before = series_document(load_series(folder, "patches/up").patches)
    (folder / "series").write_text("# licence: MIT\n# another comment\n\n0001-a.patch # and here\n0002-b.patch -p1\n")
    assert series_document(load_series(folder, "patches/up").patches) == before


def test_a_header_edit_or_a_new_file_name_moves_no_identity_and_a_hunk_edit_does(folder: Path) -> None:
    before = series_document(load_series(folder, "patches/up").patches)
    (folder / "0001-a.patch").write_text("From: someone else\nSubject: two\n\n" + CHANGE + "-- \n2.50\n\n")
    (folder / "0002-b.patch").rename(folder / "0007-z.patch")
    (folder / "series").write_text(SERIES.replace("0002-b", "0007-z"))
    assert series_document(load_series(folder, "patches/up").patches) == before
    (folder / "0001-a.patch").write_text(CHANGE.replace("+c", "+cc"))
    assert series_document(load_series(folder, "patches/up").patches) != before


def test_the_order_of_the_series_is_in_the_identity(folder: Path) -> None:
    before = series_document(load_series(folder, "patches/up").patches)
    (folder / "series").write_text("# licence: MIT\n0002-b.patch\n0001-a.patch\n")
    assert series_document(load_series(folder, "patches/up").patches) != before


def test_absent_unlisted_and_faulty_patches_and_series_lines_are_reported_together(folder: Path) -> None:
    (folder / "series").write_text(SERIES + "0003-c.patch\n")
    (folder / "0009-stray.patch").write_text(CHANGE)
    (folder / "0001-a.patch").write_text(CHANGE.replace(" a\n", "\n"))
    assert problems(folder) == [
        ("patches/up/0001-a.patch: line 4", problems(folder)[0][1]),
        ("patches/up/0009-stray.patch", "not in the series"),
        ("patches/up/series", "0003-c.patch is named, and is not there"),
    ]


def test_a_folder_without_a_series_says_so_and_still_checks_the_patches(folder: Path) -> None:
    (folder / "series").unlink()
    (folder / "0001-a.patch").write_text("")
    (folder / "patches").mkdir()
    assert [where for where, _ in problems(folder)] == ["patches/up/0001-a.patch: line 1", "patches/up/series"]
    assert problems(folder / "patches") == [("patches/up/series", "no such file")]
