# SPDX-License-Identifier: Apache-2.0
"""The file of a user's caches: changed by one at a time, and read only where it is a file."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from derive.cache.config import CacheConfig
from derive.cache.settings import add_cache, load_caches, remove_cache
from derive.errors import InputErrors
from derive.schedule.choose import configured


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def cache(number: int) -> CacheConfig:
    return CacheConfig(name=f"c{number}", registry="http://127.0.0.1:1", repository=f"r{number}")


def test_of_many_that_are_added_and_removed_at_once_none_is_lost(environ: dict[str, str]) -> None:
    for number in range(8):
        add_cache(environ, cache(number))
    with ThreadPoolExecutor(16) as pool:
        done = [pool.submit(add_cache, environ, cache(number)) for number in range(8, 16)]
        done += [pool.submit(remove_cache, environ, f"c{number}") for number in range(8)]
        for one in done:
            one.result()
    assert {one.name for one in load_caches(environ)} == {f"c{number}" for number in range(8, 16)}


def test_a_link_to_the_settings_stays_one(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "derive").mkdir()
    (tmp_path / "kept.toml").write_text("# mine\n")
    (tmp_path / "derive/config.toml").symlink_to(tmp_path / "kept.toml")
    add_cache(environ, cache(1))
    assert (tmp_path / "derive/config.toml").is_symlink()
    assert (tmp_path / "kept.toml").read_text().startswith("# mine\n\n[caches.c1]\n")


def test_settings_that_are_a_fifo_are_refused_and_not_waited_for(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "derive").mkdir()
    file = tmp_path / "derive/config.toml"
    os.mkfifo(file)
    for read in (load_caches, configured):
        with pytest.raises(InputErrors) as caught:
            read(environ)
        (problem,) = caught.value.problems()
        assert (problem.where, problem.message) == (str(file), "cannot be read: no regular file")
