# SPDX-License-Identifier: Apache-2.0
"""Files that are put on a node: a launch's folder is there whole or not at all, and what is there is kept."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from derive.canonical import sha256
from support.node_programs import NONCE, do, killed_everywhere, lease, refused

HEX = "ab" * 32
OTHERS = [f"{number:064x}" for number in range(4)]


def launch_files(launch: str = HEX, more: Mapping[str, bytes] = MappingProxyType({})) -> dict[str, bytes]:
    files = {"run": b"exec docker run\n", "systemd/derive-s.service": b"[Unit]\n", **more}
    digests = {path: str(sha256(data)) for path, data in files.items()}
    manifest = {"launch-bundle": f"sha256:{launch}", "files": digests}
    return {**files, "manifest.json": json.dumps(manifest).encode()}


def tree(folder: Path, files: Mapping[str, bytes], launch: str = HEX) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "lease": NONCE,
        "service": "s",
        "launch": launch,
        "digests": {path: str(sha256(data)) for path, data in files.items()},
        "files": {path: base64.b64encode(data).decode() for path, data in files.items()},
    }


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    lease(folder)
    return folder


@pytest.fixture
def launches(site: Path) -> Path:
    return site / "s" / "launches"


def read(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_is_put_and_put_again_it_is_kept(site: Path, launches: Path) -> None:
    files = launch_files()
    assert do("tree-put", **tree(site, files)) == {"kept": False, "replaced": False}
    number = (launches / HEX).stat().st_ino
    assert do("tree-put", **tree(site, files)) == {"kept": True, "replaced": False}
    assert (launches / HEX).stat().st_ino == number
    assert read(launches / HEX) == files
    assert [path.name for path in launches.iterdir()] == [HEX]


def _change(folder: Path) -> None:
    (folder / "run").write_bytes(b"exec rm\n")


def _add(folder: Path) -> None:
    (folder / "systemd" / "more").write_bytes(b"")


def _remove(folder: Path) -> None:
    (folder / "run").unlink()


def _link(folder: Path) -> None:
    (folder / "run").unlink()
    (folder / "run").symlink_to("manifest.json")


def _link_folder(folder: Path) -> None:
    (folder / "elsewhere").symlink_to("/")


@pytest.mark.parametrize("damage", [_change, _add, _remove, _link, _link_folder], ids=lambda one: one.__name__[1:])
def test_a_folder_that_somebody_changed_is_replaced_whole(site: Path, launches: Path, damage: Any) -> None:
    files = launch_files()
    do("tree-put", **tree(site, files))
    damage(launches / HEX)
    assert do("tree-put", **tree(site, files)) == {"kept": False, "replaced": True}
    assert read(launches / HEX) == files
    assert [path.name for path in launches.iterdir()] == [HEX]


def test_files_that_do_not_agree_with_their_manifest_are_refused(site: Path, launches: Path) -> None:
    files = launch_files()
    more = {**files, "extra": b""}
    assert "manifest is of another launch" in refused("tree-put", **tree(site, more))["message"]
    assert "manifest is of another launch" in refused("tree-put", **tree(site, files, OTHERS[1]))["message"]
    without = {path: data for path, data in files.items() if path != "manifest.json"}
    assert "no manifest" in refused("tree-put", **tree(site, without))["message"]
    garbled = tree(site, files)
    garbled["files"]["run"] = base64.b64encode(b"exec").decode()
    assert refused("tree-put", **garbled)["message"] == "files are not as they were sent: run"
    assert not launches.exists()


def test_no_file_leaves_the_folder(site: Path) -> None:
    for odd in ("../out", "/etc/out", "a/../../out", "a//b"):
        assert refused("tree-put", **tree(site, launch_files(more={odd: b"x"})))["kind"] == "wrong"
    for odd in ("../s", "a/b", "", "-x"):
        assert refused("tree-put", **{**tree(site, launch_files()), "service": odd})["kind"] == "wrong"
    assert refused("tree-put", **tree(site, launch_files("../x"), "../x"))["kind"] == "wrong"


def test_killed_anywhere_the_folder_is_whole_or_not_there_and_putting_it_again_works(site: Path) -> None:
    files = launch_files()
    attempts = killed_everywhere("tree-put", site, tree(site, files))
    whole = {f"s/launches/{HEX}/{path}": data.decode() for path, data in files.items()}
    assert len(attempts) > 10
    for attempt in attempts:
        left = {path: text for path, text in attempt.left.items() if HEX in path}
        assert left in ({}, whole)
        assert {path: text for path, text in attempt.after.items() if path != "lease.json"} == whole


def test_killed_while_a_damaged_folder_is_replaced_it_is_never_mixed(site: Path, launches: Path) -> None:
    files = launch_files()
    do("tree-put", **tree(site, files))
    (launches / HEX / "run").write_bytes(b"damaged")
    whole = {f"s/launches/{HEX}/{path}": data.decode() for path, data in files.items()}
    damaged = {**whole, f"s/launches/{HEX}/run": "damaged"}
    for attempt in killed_everywhere("tree-put", site, tree(site, files)):
        assert {path: text for path, text in attempt.left.items() if HEX in path} in ({}, whole, damaged)
        assert {path: text for path, text in attempt.after.items() if path != "lease.json"} == whole


def one_file(site: Path, data: bytes, *, send: bool = True, mode: int = 0o755) -> dict[str, Any]:
    sent = base64.b64encode(data).decode() if send else None
    known = {"folder": str(site), "lease": NONCE, "path": "guard/ab12/memguard"}
    return {**known, "sha256": str(sha256(data)), "mode": mode, "data": sent}


def test_a_file_is_asked_for_put_and_then_kept(site: Path) -> None:
    path = site / "guard" / "ab12" / "memguard"
    assert do("file-put", **one_file(site, b"guard", send=False)) == {"kept": False}
    assert do("file-put", **one_file(site, b"guard")) == {"kept": False}
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"guard", 0o755)
    path.chmod(0o600)
    assert do("file-put", **one_file(site, b"guard", send=False)) == {"kept": True}
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_file_may_be_named_by_its_full_path_but_only_below_the_folder(site: Path) -> None:
    given = one_file(site, b"guard")
    assert do("file-put", **{**given, "path": f"{site}/guard/x"}) == {"kept": False}
    assert refused("file-put", **{**given, "path": "/etc/x"})["kind"] == "wrong"


def test_a_file_that_arrives_damaged_is_refused(site: Path) -> None:
    given = one_file(site, b"guard")
    given["data"] = base64.b64encode(b"other").decode()
    assert "is not as it was sent" in refused("file-put", **given)["message"]
    assert not (site / "guard").exists()


def test_killed_anywhere_the_file_is_the_old_or_the_new_one(site: Path) -> None:
    do("file-put", **one_file(site, b"old"))
    for attempt in killed_everywhere("file-put", site, one_file(site, b"new")):
        assert attempt.left["guard/ab12/memguard"] in ("old", "new")
        assert attempt.after["guard/ab12/memguard"] == "new"


def put_launches(site: Path) -> list[Path]:
    found = []
    for number, launch in enumerate(OTHERS):
        do("tree-put", **tree(site, launch_files(launch), launch))
        path = site / "s" / "launches" / launch
        os.utime(path, (1000 + number, 1000 + number))
        found.append(path)
    return found


def prune(site: Path, *, keep: int, named: tuple[str, ...] = ()) -> list[str]:
    removed: list[str] = do("prune", folder=str(site), lease=NONCE, service="s", keep=keep, named=list(named))[
        "removed"
    ]
    return removed


def test_old_launches_go_but_for_those_that_something_names(site: Path, launches: Path) -> None:
    put_launches(site)
    (site / "s" / "current").symlink_to(f"launches/{OTHERS[0]}")
    assert prune(site, keep=1, named=(OTHERS[1],)) == [OTHERS[2]]
    assert sorted(path.name for path in launches.iterdir()) == [OTHERS[0], OTHERS[1], OTHERS[3]]
    assert prune(site, keep=1, named=(OTHERS[1],)) == []


def test_launches_that_the_state_names_stay_and_with_a_damaged_state_all_do(site: Path) -> None:
    put_launches(site)
    state = site / "s" / "state.json"
    state.write_text("{")
    assert prune(site, keep=0) == []
    served = [{"launch-bundle": f"sha256:{launch}"} for launch in OTHERS]
    state.write_text(json.dumps({"wanted": served[0], "current": None, "healthy": served[1:3]}))
    assert prune(site, keep=0) == [OTHERS[3]]


def test_what_was_cut_off_goes_with_it(site: Path, launches: Path) -> None:
    put_launches(site)
    for name in (".staging", ".damaged", ".gone-x"):
        (launches / name).mkdir()
    (site / "s" / ".new-state.json-7").write_text("{")
    assert prune(site, keep=9) == []
    assert sorted(path.name for path in launches.iterdir()) == OTHERS
    assert [path.name for path in (site / "s").iterdir()] == ["launches"]


def test_killed_anywhere_no_launch_is_left_in_part(site: Path) -> None:
    put_launches(site)
    given = {"folder": str(site), "lease": NONCE, "service": "s", "keep": 3, "named": []}
    for attempt in killed_everywhere("prune", site, given):
        for launch in OTHERS:
            left = [path for path in attempt.left if path.startswith(f"s/launches/{launch}/")]
            assert len(left) in ((0, 3) if launch == OTHERS[0] else (3,))
        assert not any(OTHERS[0] in path for path in attempt.after)
