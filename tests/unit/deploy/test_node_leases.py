# SPDX-License-Identifier: Apache-2.0
"""A node's lease: one deploy at a time, taken over only from who is known to be gone, and shown at every change."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import Json
from derive.deploy.effects import this_process
from derive.deploy.node import common
from derive.deploy.node.common import Refused, document
from derive.deploy.programs import COMMAND, payload
from support.node_programs import NONCE, do, killed_everywhere, refused

HEX = "ab" * 32
GONE = {"pid": 2**22 + 1}
"""More than there can be processes."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "site"


def take(folder: Path, nonce: str, *, seconds: int = 60, **owner: Any) -> Any:
    whole = {**this_process("a test").document(), **owner}
    return do("lease-take", folder=str(folder), lease=nonce, owner=whole, seconds=seconds)


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "lease.json"
    path.write_bytes(document({**json.loads(path.read_text()), **changes}))


def test_the_first_has_it_and_another_is_told_who(folder: Path) -> None:
    first = take(folder, "first")
    assert (first["former"], first["why"], first["lease"]["left_s"]) == (None, None, 60)
    with pytest.raises(Refused) as caught:
        take(folder, "second")
    assert caught.value.answer["kind"] == "lease-held"
    assert caught.value.answer["data"]["nonce"] == "first"
    assert "deploys to this node: a test" in caught.value.answer["message"]
    assert "its lease ends in" in (caught.value.answer["hint"] or "")


def test_taken_again_with_its_own_nonce_it_is_renewed(folder: Path) -> None:
    first = take(folder, "first", seconds=5)
    again = take(folder, "first", seconds=60)
    assert (again["former"], again["why"], again["lease"]["left_s"]) == (None, None, 60)
    assert again["lease"]["taken_s"] == first["lease"]["taken_s"]


def test_one_that_has_expired_is_taken_over_and_that_is_said(folder: Path) -> None:
    take(folder, "first", seconds=0)
    second = take(folder, "second")
    assert (second["why"], second["former"]["nonce"], second["lease"]["nonce"]) == ("expired", "first", "second")


@pytest.mark.parametrize("owner", [GONE, {"started": 1}], ids=["no such process", "another process of that number"])
def test_one_whose_process_on_this_machine_is_gone_is_taken_over_and_that_is_said(
    folder: Path, owner: dict[str, Any]
) -> None:
    take(folder, "first", **owner)
    assert take(folder, "second")["why"] == "owner gone"


@pytest.mark.parametrize(
    "elsewhere",
    [{"host": "other"}, {"pid-namespace": "pid:[1]"}, {"boot-id": "other"}],
    ids=lambda one: next(iter(one)),
)
def test_a_process_of_another_machine_is_not_looked_for_here(folder: Path, elsewhere: dict[str, Any]) -> None:
    take(folder, "first", **GONE, **elsewhere)
    with pytest.raises(Refused, match="deploys to this node"):
        take(folder, "second")


def test_one_that_its_successor_knows_to_be_gone_is_replaced_by_nonce_alone(folder: Path) -> None:
    take(folder, "first", host="other")
    given = {"folder": str(folder), "owner": this_process("a test").document(), "seconds": 60}
    assert refused("lease-take", lease="second", replaces="another", **given)["kind"] == "lease-held"
    assert do("lease-take", lease="second", replaces="first", **given)["why"] == "owner gone"


def test_after_a_reboot_the_time_of_day_says_whether_it_still_holds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "boot_ms", lambda: 5000)
    take(folder, "first")
    edit(folder, **{"boot-id": "an earlier boot", "expires-boot_ms": 0})
    with pytest.raises(Refused, match="deploys to this node"):
        take(folder, "second")
    edit(folder, expires_s=int(time.time()) - 1)
    assert take(folder, "second")["why"] == "expired"


def test_after_a_reboot_it_holds_no_longer_than_it_was_granted_for_whatever_the_clock_was_set_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(folder, "first")
    edit(folder, **{"boot-id": "an earlier boot", "expires_s": int(time.time()) + 10**8})
    monkeypatch.setattr(common, "boot_ms", lambda: 20_000)
    assert do("lease-read", folder=str(folder))["lease"]["left_s"] == 40
    monkeypatch.setattr(common, "boot_ms", lambda: 61_000)
    assert take(folder, "second")["why"] == "expired"


def test_one_whose_process_ran_on_this_machine_before_its_reboot_is_taken_over(folder: Path) -> None:
    owner: dict[str, Any] = {"boot-id": "an earlier boot"}
    take(folder, "first", **owner)
    edit(folder, **{"boot-id": "an earlier boot", "expires-boot_ms": 0})
    assert take(folder, "second")["why"] == "owner gone"


def test_whether_its_owner_ran_on_the_node_and_is_gone_is_told_with_it(folder: Path) -> None:
    take(folder, "first")
    assert do("lease-read", folder=str(folder))["lease"]["is_gone"] is False
    take(folder, "first", **GONE)
    assert do("lease-read", folder=str(folder))["lease"]["is_gone"] is True


def test_setting_the_clock_ends_no_lease(folder: Path) -> None:
    take(folder, "first")
    edit(folder, expires_s=0)
    assert do("lease-read", folder=str(folder))["lease"]["left_s"] > 50


def test_it_is_freed_by_its_holder_alone(folder: Path) -> None:
    take(folder, "first")
    assert do("lease-free", folder=str(folder), lease="second") == {"freed": False}
    assert do("lease-free", folder=str(folder), lease="first") == {"freed": True}
    assert do("lease-read", folder=str(folder)) == {"lease": None, "damaged": None}
    assert do("lease-free", folder=str(folder), lease="first") == {"freed": False}


def damage(folder: Path, how: str) -> None:
    """Make a lease what no program of ours would have written."""
    take(folder, "first")
    whole = json.loads((folder / "lease.json").read_text())
    owner = whole["owner"]
    texts = {
        "empty": "",
        "truncated": json.dumps(whole)[:40],
        "a list": "[]",
        "deep": "[" * 100_000,
        "no time": json.dumps({**whole, "expires-boot_ms": None}),
        "for ever": json.dumps({**whole, "expires-boot_ms": 2**50}),
        "half an owner": json.dumps({**whole, "owner": {"pid": owner["pid"]}}),
        "an odd owner": json.dumps({**whole, "owner": {**owner, "pid": "one"}}),
    }
    (folder / "lease.json").unlink()
    if how == "a folder":
        (folder / "lease.json").mkdir()
    else:
        (folder / "lease.json").write_text(texts[how])


DAMAGE = ["empty", "truncated", "a list", "deep", "no time", "for ever", "half an owner", "an odd owner", "a folder"]


@pytest.mark.parametrize("how", DAMAGE)
def test_one_that_cannot_be_read_is_told_and_taken_over_once_its_holder_would_have_renewed_it(
    folder: Path, how: str
) -> None:
    damage(folder, how)
    said = do("lease-read", folder=str(folder))
    assert said["lease"] is None
    assert "lease.json is no lease" in said["damaged"]
    assert "it may be held for" in said["damaged"]
    given = {"folder": str(folder), "owner": this_process("a test").document(), "seconds": 60}
    answer = refused("lease-take", lease="second", **given)
    assert answer["kind"] == "lease-held"
    assert "taken over" in answer["hint"]
    for written in (time.time() - 61, time.time() + 10**6):
        os.utime(folder / "lease.json", (written, written))
        assert "it may be held" not in do("lease-read", folder=str(folder))["damaged"]
    second = take(folder, "second")
    assert (second["why"], second["former"], second["lease"]["nonce"]) == ("damaged", None, "second")


CHANGES: dict[str, dict[str, Any]] = {
    "activate": {"service": "s", "launch": HEX, "state": {}},
    "file-put": {"path": "guard/x", "sha256": "", "mode": 0o755, "data": None},
    "lease-renew": {"seconds": 60},
    "prune": {"service": "s", "keep": 1, "named": []},
    "run": {"argv": ["false"], "stdin": ""},
    "state-write": {"service": "s", "state": {}},
    "units-install": {"units": {}, "remove": [], "into": "/nowhere"},
    "units-remove": {"names": [], "into": "/nowhere"},
}


@pytest.mark.parametrize("effect", CHANGES)
@pytest.mark.parametrize("held", [True, False], ids=["another's", "nobody's"])
def test_a_change_without_the_lease_is_refused_and_nothing_is_changed(folder: Path, effect: str, *, held: bool) -> None:
    take(folder, "first")
    if not held:
        do("lease-free", folder=str(folder), lease="first")
    before = sorted(folder.rglob("*"))
    answer = refused(effect, folder=str(folder), lease="second", **CHANGES[effect])
    assert answer["kind"] == "fenced"
    assert (answer["data"] is not None) is held
    assert sorted(folder.rglob("*")) == before


def test_it_is_not_taken_in_the_middle_of_a_change_of_its_former_holder(folder: Path, tmp_path: Path) -> None:
    take(folder, "first", seconds=0)
    mark, go = tmp_path / "mark", tmp_path / "go"
    os.mkfifo(go)
    script = f"echo begun; touch {mark}; read -r _ < {go}; echo done"
    given = {"folder": str(folder), "lease": "first", "argv": ["sh", "-c", script], "stdin": ""}
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as change:
        assert change.stdin is not None
        change.stdin.write(payload("run", given, held=False))
        change.stdin.close()
        while not mark.exists():
            time.sleep(0.01)
        arguments: dict[str, Json] = {
            "folder": str(folder),
            "lease": "second",
            "owner": this_process("").document(),
            "seconds": 60,
        }
        with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as taking:
            assert taking.stdin is not None
            taking.stdin.write(payload("lease-take", arguments, held=False))
            taking.stdin.close()
            # It holds while the change goes on, and may even be renewed meanwhile.
            renewed = do("lease-renew", folder=str(folder), lease="first", seconds=0)
            assert renewed["lease"]["nonce"] == "first"
            assert taking.poll() is None
            go.write_text("\n")
            assert taking.stdout is not None
            assert b'"why": "expired"' in taking.stdout.read()
    assert do("lease-read", folder=str(folder))["lease"]["nonce"] == "second"


def test_killed_anywhere_there_is_the_old_lease_or_the_new_one_and_taking_it_again_works(folder: Path) -> None:
    take(folder, "first", seconds=0)
    old = (folder / "lease.json").read_text()
    given = {"folder": str(folder), "lease": NONCE, "owner": this_process("").document(), "seconds": 60}
    attempts = killed_everywhere("lease-take", folder, given)
    assert len(attempts) > 3
    for attempt in attempts:
        left = attempt.left["lease.json"]
        assert left == old or json.loads(left)["nonce"] == NONCE
        assert json.loads(attempt.after["lease.json"])["nonce"] == NONCE


def test_the_folder_is_made_where_it_is_not_there(folder: Path) -> None:
    assert do("folder-make", folder=str(folder / "deep")) == {"made": True}
    assert do("folder-make", folder=str(folder / "deep")) == {"made": False}


def test_a_folder_is_an_absolute_path_without_detours() -> None:
    for odd in ("var/lib", "/", "/var/../etc", "/var//lib", "/var/"):
        assert refused("lease-read", folder=odd)["kind"] == "wrong"
