# SPDX-License-Identifier: Apache-2.0
"""Mirrors and archives as a person meets them: what is gone, what was begun, and where things came from."""

from __future__ import annotations

import lzma
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import sha256
from support.running import running
from support.servers import Reply
from support.small import Small, artifacts, locator, small_project
from support.store_check import check_store, rows

NOTES = "notes_1.0-1_amd64.deb"
LARGE = "busybox_1.0-1_amd64.deb"
STALL = 600_000
INDEX = "/debian/dists/trixie/main/binary-amd64/Packages.xz"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as project:
        yield project


def keep(folder: Path, data: bytes) -> Path:
    """Put an artifact into an archive."""
    target = folder / "blobs" / "sha256" / sha256(data).hex
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return folder


def partial(small: Small) -> int:
    """Say how many bytes of the large artifact lie there unfinished; others may be on their way beside it."""
    path = small.store / "partial" / sha256(artifacts()[LARGE]).hex
    return path.stat().st_size if path.exists() else 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_download_that_was_stopped_is_gone_on_with(small: Small, number: signal.Signals) -> None:
    whole = artifacts()[LARGE]
    assert len(whole) > STALL + 100_000, "the busybox of this machine is smaller than any was"
    small.serve(LARGE, Reply(body=whole, stall=STALL))
    with running(small, "image") as run:
        run.wait_for(lambda: partial(small) > STALL // 2)
        run.end(number, within_s=40)
    check_store(small.store)
    came = partial(small)
    assert came > STALL // 2
    small.serve(LARGE, Reply(body=whole))
    small.server.requests.clear()
    again = small.derive("image")
    assert again.code == 0, again.err
    (asked,) = [request for request in small.server.requests if request.path.endswith(LARGE)]
    assert asked.headers["range"] == f"bytes={came - (1 << 16)}-"
    assert partial(small) == 0
    check_store(small.store)


def test_r4_a_deb_that_is_gone_comes_from_an_archive_with_the_same_digest(small: Small, tmp_path: Path) -> None:
    expected = small.here("image", "--store", str(tmp_path / "first")).answer
    small.serve(NOTES, Reply(status=404))
    kept = keep(tmp_path / "kept", artifacts()[NOTES])
    ran = small.here("image", env={"DERIVE_ARCHIVES": str(kept)})
    assert ran.answer == expected
    places = {place for (place,) in rows(small.store, "SELECT place FROM sources")}
    assert places == {
        str(kept),
        *(f"{small.server.url}/debian/{locator(file)}" for file in (LARGE, "hello_1.0.orig.tar.gz")),
    }


def test_an_archive_named_in_the_users_settings_serves_what_is_gone(small: Small, tmp_path: Path) -> None:
    small.serve(NOTES, Reply(status=404))
    kept = keep(tmp_path / "with a blank", artifacts()[NOTES])
    settings = small.home / "derive" / "config.toml"
    settings.parent.mkdir()
    settings.write_text(f'[archives]\nplaces = "{kept}"\n')
    assert small.here("image").answer.startswith("sha256:")


def test_the_store_of_another_machine_serves_a_whole_image_without_a_mirror(small: Small, tmp_path: Path) -> None:
    expected = small.here("image", "--store", str(tmp_path / "first")).answer
    for file in artifacts():
        small.serve(file, Reply(status=404))
    ran = small.here("image", env={"DERIVE_ARCHIVES": str(tmp_path / "first")})
    assert ran.answer == expected


def test_r4_a_deb_that_is_gone_everywhere_names_the_update_that_would_replace_it(small: Small) -> None:
    small.serve(NOTES, Reply(status=404))
    small.server.serve(INDEX, Reply(body=lzma.compress(b"Package: notes\nVersion: 1.0-2\n")))
    ran = small.here("image", env={"DERIVE_ARCHIVES": "/nowhere/at/all"})
    assert ran.code == 3
    assert "notes 1.0-1: no mirror serves pool/main/n/notes/notes_1.0-1_amd64.deb" in ran.err
    assert "now       trixie serves 1.0-2\n" in ran.err
    assert "hint: run: derive lock --update notes, or configure an archive that still has 1.0-1" in ran.err
    assert ran.err.count("/nowhere/at/all") <= 2


@pytest.mark.parametrize("text", ["[archives]\nplaces = 'kept'\n", "[archives]\nplace = '/kept'\n", "archives = 1\n"])
def test_settings_that_are_wrong_are_input_errors(small: Small, text: str) -> None:
    settings = small.home / "derive" / "config.toml"
    settings.parent.mkdir()
    settings.write_text(text)
    small.serve(NOTES, Reply(status=404))
    ran = small.here("image")
    assert ran.code == 2, ran.err
    assert "config.toml: archives" in ran.err
    assert "Traceback" not in ran.err
