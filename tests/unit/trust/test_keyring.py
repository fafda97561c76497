# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.errors import Corrupt, HostRefuses, InputErrors
from derive.trust.keyring import Keyring, user_keyring
from derive.trust.keys import SigningKey
from support.cli import environment

RACE = (
    "import sys, pathlib; from derive.trust.keyring import Keyring\n"
    "try: print(Keyring(pathlib.Path(sys.argv[1])).new('build').public)\n"
    "except Exception as error: print(type(error).__name__)\n"
)


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path / "derive")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_making_the_object_touches_nothing(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "derive")
    assert keyring.own() == ()
    assert keyring.revoked() == {}
    assert list(tmp_path.iterdir()) == []


def test_a_new_key_is_for_its_owner_alone_whatever_the_umask(keyring: Keyring) -> None:
    before = os.umask(0)
    try:
        key = keyring.new("build")
    finally:
        os.umask(before)
    assert key == keyring.signing_key("build")
    folder = keyring.path("build").parent
    assert mode(keyring.path("build")) == 0o600
    assert mode(folder) == 0o700
    assert [path.name for path in folder.iterdir()] == ["build.key"]


def test_a_key_reads_back(keyring: Keyring) -> None:
    key = keyring.new("build")
    assert keyring.signing_key("build").public == key.public
    assert [(one.name, one.public) for one in keyring.own()] == [("build", key.public)]


def test_two_keys_are_never_the_same(keyring: Keyring) -> None:
    assert keyring.new("one").public != keyring.new("two").public


def test_a_key_is_never_written_over_another(keyring: Keyring) -> None:
    first = keyring.new("build")
    with pytest.raises(InputErrors, match="1 problem"):
        keyring.new("build")
    assert keyring.signing_key("build") == first


def test_of_processes_that_make_one_name_at_once_one_does(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RACE, str(tmp_path)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) for _ in range(4)]
    said = sorted(process.communicate()[0].strip() for process in started)
    assert said[:3] == ["InputErrors"] * 3
    assert said[3] == str(Keyring(tmp_path).signing_key("build").public)
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["build.key"]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", ".hidden", "a b", "x" * 65, "caf\u00e9", "\udcff", "a\n"]
)
def test_a_name_that_could_lead_elsewhere_is_refused(keyring: Keyring, name: str) -> None:
    for call in (keyring.new, keyring.signing_key):
        with pytest.raises(InputErrors):
            call(name)


def test_a_key_that_is_not_there_is_said_with_the_next_step(keyring: Keyring) -> None:
    with pytest.raises(InputErrors) as caught:
        keyring.signing_key("build")
    assert "derive key new build" in str(caught.value.problems()[0].hint)


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o620, 0o610])
def test_a_key_that_others_can_use_is_refused(keyring: Keyring, bits: int) -> None:
    keyring.new("build")
    path = keyring.path("build")
    path.chmod(bits)
    with pytest.raises(HostRefuses) as caught:
        keyring.signing_key("build")
    assert "chmod 600" in str(caught.value.hint)


def test_a_file_that_holds_no_key_is_named(keyring: Keyring) -> None:
    keyring.new("build")
    path = keyring.path("build")
    path.write_bytes(b"text")
    with pytest.raises(Corrupt) as caught:
        keyring.signing_key("build")
    assert caught.value.where == str(path)


def test_a_pipe_in_place_of_a_key_does_not_hang(keyring: Keyring) -> None:
    keyring.new("build")
    path = keyring.path("build")
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(HostRefuses, match="ordinary file"):
        keyring.signing_key("build")


@pytest.mark.parametrize("data", [b"text", None])
def test_a_key_that_others_read_or_that_is_broken_is_still_listed(keyring: Keyring, data: bytes | None) -> None:
    exposed, _ = keyring.new("exposed"), keyring.new("other")
    keyring.path("exposed").chmod(0o644)
    if data is None:
        keyring.path("other").unlink()
        keyring.path("other").mkdir()
    else:
        keyring.path("other").write_bytes(data)
    assert [(one.name, one.public) for one in keyring.own()] == [("exposed", exposed.public), ("other", None)]


# Revoking


def test_a_revoked_key_stays_revoked(keyring: Keyring) -> None:
    key = keyring.new("build").public.id
    assert keyring.revoke(key, "build")
    assert not keyring.revoke(key, "other")
    assert keyring.revoked() == {key: "build"}


def test_a_revoked_key_may_not_sign(keyring: Keyring) -> None:
    key = keyring.new("build")
    assert keyring.usable(["build"]) == (keyring.signing_key("build"),)
    keyring.revoke(key.public.id, "build")
    with pytest.raises(InputErrors):
        keyring.usable(["build"])


def test_a_key_of_somebody_else_is_revoked_before_any_key_is_made(keyring: Keyring) -> None:
    other = SigningKey(bytes(32)).public.id
    assert keyring.revoke(other, "")
    assert keyring.revoked() == {other: ""}


def test_none_of_many_revocations_at_once_is_lost(keyring: Keyring) -> None:
    keys = [sha256(bytes([number])) for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda key: keyring.revoke(key, ""), keys))
    assert set(keyring.revoked()) == set(keys)


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b'{"derive":"revoked-keys/1","keys":{"x":""}}', b"\xff", b"{" * 9999]
)
def test_when_it_cannot_be_known_what_is_revoked_nothing_is_taken_for_good(
    keyring: Keyring, tmp_path: Path, text: bytes
) -> None:
    keyring.revoke(sha256(b""), "")
    (tmp_path / "derive" / "revoked-keys.json").write_bytes(text)
    with pytest.raises(Corrupt):
        keyring.revoked()
    with pytest.raises(Corrupt):
        keyring.revoke(sha256(b"x"), "")
    assert (tmp_path / "derive" / "revoked-keys.json").read_bytes() == text


@pytest.fixture
def no_folder(tmp_path: Path) -> Keyring:
    (tmp_path / "file").write_bytes(b"")
    return Keyring(tmp_path / "file")


def test_a_place_that_cannot_be_written_is_said(no_folder: Keyring) -> None:
    with pytest.raises(HostRefuses):
        no_folder.new("build")
    with pytest.raises(HostRefuses):
        no_folder.revoke(sha256(b""), "")


def test_the_user_s_keys_lie_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert user_keyring().path("build") == tmp_path / "data" / "derive" / "keys" / "build.key"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert user_keyring().path("build") == tmp_path / "home/.local/share/derive/keys/build.key"
