# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from derive.errors import HostRefuses, InputErrors
from derive.importing.plan import Imported
from derive.importing.write import read_sources, targets, write_new

FOUND = Imported(name="served", recipe="a = 1\n", sites={"site": "b = 2\n"}, rows=(), notes=())


def test_all_files_are_written_or_none(tmp_path: Path) -> None:
    texts = targets(FOUND, tmp_path, str(tmp_path / "out"), {})
    write_new(texts)
    assert (tmp_path / "out" / "served.toml").read_text() == "a = 1\n"
    (tmp_path / "out" / "served.toml").unlink()
    with pytest.raises(InputErrors) as refused:
        write_new(texts)
    assert [one.where for one in refused.value.problems()] == [str(tmp_path / "out" / "site.toml")]
    assert not (tmp_path / "out" / "served.toml").exists()


def test_a_site_in_the_way_is_no_matter_of_the_recipes_name(tmp_path: Path) -> None:
    texts = targets(FOUND, tmp_path, None, {"DERIVE_SITE": str(tmp_path / "mine.toml")})
    write_new(texts)
    with pytest.raises(InputErrors) as refused:
        write_new(texts)
    hints = {Path(str(one.where)).name: str(one.hint) for one in refused.value.problems()}
    assert hints["served.toml"].endswith("--out or --name")
    assert hints["mine.toml"].endswith("--out")


def test_a_second_file_that_cannot_be_written_takes_back_the_first(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostRefuses):
        write_new({tmp_path / "a.toml": "", tmp_path / "file" / "b.toml": ""})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_site_is_written_where_sites_are_read_and_for_its_owner_alone(tmp_path: Path) -> None:
    texts = targets(FOUND, tmp_path, None, {"XDG_CONFIG_HOME": str(tmp_path / "config")})
    site = tmp_path / "config" / "derive" / "site.toml"
    assert list(texts) == [tmp_path / "recipes" / "served.toml", site]
    write_new(texts)
    assert site.stat().st_mode & 0o077 == 0
    named = targets(FOUND, tmp_path, None, {"DERIVE_SITE": str(tmp_path / "mine.toml")})
    assert tmp_path / "mine.toml" in named


def test_a_name_before_a_file_is_its_shapes_unless_a_file_is_called_so(tmp_path: Path) -> None:
    for name in ("one.json", "a=b.json"):
        (tmp_path / name).write_text("{}")
    (first, second), _ = read_sources([f"tp4-ring={tmp_path}/one.json", f"{tmp_path}/a=b.json"], [])
    assert (first.shape, second.shape) == ("tp4-ring", None)


def test_every_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as refused:
        read_sources([str(tmp_path / "x")], [str(tmp_path)])
    assert len(refused.value.problems()) == 2
