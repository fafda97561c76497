# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.patches.publish import SeriesFiles, publish, read_series
from support.killed_driver import Counter, install
from support.patch_project import quick_folder

PATCH = "Description: {0}\n\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-{0}\n+x\n"
SERIES = "# licence: Apache-2.0\n"


def series(root: Path, *names: str) -> SeriesFiles:
    folder = root / "patches" / "up"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(PATCH.format(name))
    (folder / "series").write_text(SERIES + "".join(f"{name}\n" for name in names))
    return read_series(root, "up")


def other(before: SeriesFiles) -> dict[str, bytes]:
    """One patch gone, one changed, one new, another order."""
    changed, new = PATCH.format("changed").encode(), PATCH.format("new").encode()
    files = {"b.patch": changed, "c.patch": before.files["c.patch"], "d.patch": new}
    return {**files, "series": (SERIES + "d.patch\nc.patch\nb.patch\n").encode()}


def lying(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_folder_holds_exactly_the_new_files(tmp_path: Path) -> None:
    before = series(tmp_path, "a.patch", "b.patch", "c.patch")
    (before.folder / "README").write_text("a person's")
    after = publish(before, other(before))
    assert lying(before.folder) == {**other(before), "README": b"a person's"}
    assert after.digest == read_series(tmp_path, "up").digest


def test_nothing_to_write_touches_nothing(tmp_path: Path) -> None:
    before = series(tmp_path, "a.patch")
    facts = [(path.name, path.stat().st_mtime_ns) for path in before.folder.iterdir()]
    publish(before, before.files)
    assert [(path.name, path.stat().st_mtime_ns) for path in before.folder.iterdir()] == facts


def test_files_that_are_no_series_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    before = series(tmp_path, "a.patch")
    with pytest.raises(InputErrors):
        publish(before, {"series": b"a.patch\n", "a.patch": b"text\n"})
    assert lying(before.folder) == dict(before.files)


def test_a_series_that_was_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    before = series(tmp_path, "a.patch", "b.patch", "c.patch")
    (before.folder / "series").write_text(SERIES + "a.patch\nb.patch\n")
    (before.folder / "c.patch").unlink()
    with pytest.raises(InputErrors) as refused:
        publish(before, other(before))
    assert "changed while" in refused.value.problems()[0].message


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    before = series(tmp_path, "b.patch", "c.patch")
    (before.folder / "b.patch").chmod(0o600)
    publish(before, other(before))
    assert (before.folder / "b.patch").stat().st_mode & 0o777 == 0o600


def test_an_unknown_series_names_those_that_there_are(tmp_path: Path) -> None:
    series(tmp_path, "a.patch")
    for name in ("down", "../patches/up", ""):
        with pytest.raises(InputErrors) as refused:
            read_series(tmp_path, name)
        assert "expected  one of up" in refused.value.problems()[0].detail


def test_killed_at_any_step_the_series_is_the_old_or_the_new_one() -> None:
    seen: set[bool] = set()
    with quick_folder() as place:
        for fatal in range(1, 200):
            root = place / str(fatal)
            before = series(root, "a.patch", "b.patch", "c.patch")
            files = other(before)
            child = os.fork()
            if child == 0:
                try:
                    install(Counter(fatal))
                    publish(before, files)
                finally:
                    os._exit(0)
            _, status = os.waitpid(child, 0)
            after = read_series(root, "up")
            assert dict(after.files) in (dict(before.files), files)
            seen.add(dict(after.files) == files)
            publish(after, files)
            assert lying(before.folder) == files
            if not os.WIFSIGNALED(status):
                break
    assert seen == {True, False}
    assert fatal > 10


@pytest.mark.parametrize("name", ["patches", "patches/up", "patches/up/series", "patches/up/a.patch"])
def test_a_link_is_no_part_of_a_series(tmp_path: Path, name: str) -> None:
    series(tmp_path, "a.patch", "b.patch")
    (tmp_path / name).rename(tmp_path / "elsewhere")
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputErrors) as caught:
        read_series(tmp_path, "up")
    assert [(one.where, one.message) for one in caught.value.problems()] == [
        (name, "a link: content files are ordinary files")
    ]
