# SPDX-License-Identifier: Apache-2.0
"""What a node remembers of a service: written whole, read as it is, and its link never leads to what is not there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.node_programs import NONCE, do, killed_everywhere, lease, refused

OLD, NEW = "01" * 32, "02" * 32


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    lease(folder)
    for launch in (OLD, NEW):
        (folder / "s" / "launches" / launch).mkdir(parents=True)
    return folder


def given(site: Path, launch: str | None, **state: Any) -> dict[str, Any]:
    return {"folder": str(site), "lease": NONCE, "service": "s", "launch": launch, "state": state}


def seen(site: Path) -> Any:
    return do("state-read", folder=str(site), service="s")


def test_nothing_is_known_of_a_service_that_never_was_there(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"state": None, "damaged": None, "link": None, "odd": None, "launches": []}
    assert do("state-read", folder=str(tmp_path), service="s") == nothing
    assert do("states-read", folder=str(tmp_path)) == {}


def test_the_link_leads_to_the_launch_and_the_former_is_told(site: Path) -> None:
    assert do("activate", **given(site, OLD, step="one")) == {"former": None}
    assert do("activate", **given(site, NEW, step="two")) == {"former": OLD}
    assert (site / "s" / "current").resolve() == site / "s" / "launches" / NEW
    assert seen(site) == {"state": {"step": "two"}, "damaged": None, "link": NEW, "odd": None, "launches": [OLD, NEW]}


def test_done_twice_it_is_as_done_once(site: Path) -> None:
    do("activate", **given(site, NEW, step="one"))
    before = seen(site)
    assert do("activate", **given(site, NEW, step="one")) == {"former": NEW}
    assert seen(site) == before


def test_no_link_leads_to_what_is_not_staged(site: Path) -> None:
    do("activate", **given(site, OLD, step="one"))
    answer = refused("activate", **given(site, "03" * 32, step="two"))
    assert (answer["kind"], answer["hint"]) == ("not-staged", "put its files there first")
    assert (seen(site)["link"], seen(site)["state"]) == (OLD, {"step": "one"})


def test_a_link_is_removed_when_nothing_is_to_run(site: Path) -> None:
    do("activate", **given(site, OLD, step="one"))
    assert do("activate", **given(site, None, step="stopped")) == {"former": OLD}
    assert do("activate", **given(site, None, step="stopped")) == {"former": None}
    assert (seen(site)["link"], seen(site)["state"]) == (None, {"step": "stopped"})


def test_a_folder_in_the_place_of_link_or_state_is_kept_under_another_name_and_stands_in_no_ones_way(
    site: Path,
) -> None:
    for name in ("current", "state.json"):
        (site / "s" / name / "whose").mkdir(parents=True)
    do("activate", **given(site, OLD, step="one"))
    assert (seen(site)["link"], seen(site)["state"]) == (OLD, {"step": "one"})
    assert (site / "s" / "current.odd-1" / "whose").is_dir()
    assert (site / "s" / "state.json.odd-1" / "whose").is_dir()


def test_a_link_that_is_none_or_leads_nowhere_is_told(site: Path) -> None:
    link = site / "s" / "current"
    for target, said in ((OLD, None), ("03" * 32, "leads to a launch that is not there"), ("x", "leads to no launch")):
        link.symlink_to(f"launches/{target}")
        assert seen(site)["odd"] == said
        link.unlink()
    link.mkdir()
    assert seen(site)["odd"] == "is a folder"


@pytest.mark.parametrize("data", [b"[" * 100_000, b"", b'{"at_s":' + b"9" * 5000 + b"}"], ids=["deep", "empty", "long"])
def test_whatever_stands_in_a_state_the_rest_is_told(site: Path, data: bytes) -> None:
    do("activate", **given(site, OLD, step="one"))
    (site / "s" / "state.json").write_bytes(data)
    assert seen(site)["link"] == OLD
    assert seen(site)["state"] is None
    assert "cannot be read" in seen(site)["damaged"]


def test_a_state_that_is_a_pipe_holds_nobody_up(site: Path) -> None:
    os.mkfifo(site / "s" / "state.json")
    assert seen(site)["damaged"] == "cannot be read as JSON: it is no file"


def test_killed_anywhere_the_state_is_never_ahead_of_the_link(site: Path) -> None:
    do("activate", **given(site, OLD, step="old"))
    attempts = killed_everywhere("activate", site, given(site, NEW, step="new"))
    assert len(attempts) > 6
    for attempt in attempts:
        link, step = attempt.left["s/current"][-64:], json.loads(attempt.left["s/state.json"])["step"]
        assert (link, step) in ((OLD, "old"), (NEW, "old"), (NEW, "new"))
        assert attempt.after["s/current"] == f"-> launches/{NEW}"
        assert json.loads(attempt.after["s/state.json"])["step"] == "new"


def test_killed_anywhere_the_state_is_the_old_or_the_new_one(site: Path) -> None:
    do("state-write", folder=str(site), lease=NONCE, service="s", state={"step": "old"})
    written = {"folder": str(site), "lease": NONCE, "service": "s", "state": {"step": "new"}}
    for attempt in killed_everywhere("state-write", site, written):
        assert attempt.left["s/state.json"] in ('{"step":"old"}', '{"step":"new"}')
        assert attempt.after["s/state.json"] == '{"step":"new"}'


def test_a_state_that_cannot_be_read_is_said_and_hides_nothing_else(site: Path) -> None:
    do("activate", **given(site, OLD, step="one"))
    (site / "s" / "state.json").write_bytes(b"\xff{")
    told = seen(site)
    assert (told["state"], told["link"]) == (None, OLD)
    assert told["damaged"].startswith("cannot be read as JSON")


def test_every_service_of_a_site_is_told_and_what_is_none_is_not(site: Path) -> None:
    do("activate", **given(site, OLD, step="one"))
    for name in ("guard", "cache", ".hidden", "empty"):
        (site / name).mkdir()
    assert list(do("states-read", folder=str(site))) == ["s"]
