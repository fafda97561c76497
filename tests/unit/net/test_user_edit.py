# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.net.user import user_config
from derive.net.user_edit import rewrite_config


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_what_several_add_at_once_is_all_there(environ: dict[str, str]) -> None:
    threads = [
        threading.Thread(target=rewrite_config, args=(environ, lambda data, _, n=number: data + b"%d\n" % n))
        for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, user_config(environ).read_bytes().split())) == list(range(20))


def test_a_file_goes_with_the_last_that_stood_in_it_and_one_that_a_link_leads_to_stays(
    environ: dict[str, str], tmp_path: Path
) -> None:
    file = rewrite_config(environ, lambda *_: b"a = 1\n")
    rewrite_config(environ, lambda *_: b"")
    assert not file.exists()
    target = tmp_path / "dotfiles.toml"
    target.write_bytes(b"a = 1\n")
    file.symlink_to(target)
    rewrite_config(environ, lambda *_: b"")
    assert target.read_bytes() == b""
    assert file.is_symlink()


def test_what_is_refused_leaves_the_file_as_it_was(environ: dict[str, str]) -> None:
    file = rewrite_config(environ, lambda *_: b"a = 1\n")
    before = file.stat()

    def refuse(_: bytes, where: str) -> bytes:
        raise InputErrors.one("no", where=where)

    with pytest.raises(InputErrors):
        rewrite_config(environ, refuse)
    rewrite_config(environ, lambda data, _: data)
    assert (file.read_bytes(), file.stat().st_ino) == (b"a = 1\n", before.st_ino)


def test_a_fifo_is_refused_and_not_waited_for(environ: dict[str, str]) -> None:
    file = user_config(environ)
    file.parent.mkdir()
    os.mkfifo(file)
    with pytest.raises(InputErrors):
        rewrite_config(environ, lambda data, _: data)
