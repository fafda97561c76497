# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from derive.canonical import Digest, Json, decode, encode, sha256
from derive.errors import Corrupt, InputErrors
from derive.project import load_policy
from derive.records.model import record
from derive.trust.dsse import sign
from derive.trust.folder import add_event, load_history
from derive.trust.history import (
    REVOKED,
    ROTATED,
    History,
    next_name,
    now_trusted,
    read_history,
    revoked_body,
    rotated_body,
)
from derive.trust.keys import SigningKey
from derive.trust.policy import Policy, judge
from derive.trust.rotation import Rotation
from derive.trust.statement import PAYLOAD_TYPE
from derive.words import LAST_S
from support.golden import check_golden

OLD, NEW, NEWER, THIEF = (SigningKey(bytes([number]) * 32) for number in (1, 2, 3, 9))
HEAD = sha256(b"the last release record")
KIND = "application/example"


def rotated(old: SigningKey, new: SigningKey, name: str = "build") -> tuple[str, str, dict[str, Json]]:
    rotation = Rotation(name=name, old=old.public, new=new.public, made_s=1_800_000_000)
    envelope = decode(rotation.signed(old, new).encoded())
    return ROTATED, name, rotated_body(rotation, envelope, HEAD, "a year is over")


def revoked(key: SigningKey, name: str = "build", releases: Digest | None = HEAD) -> tuple[str, str, dict[str, Json]]:
    body = revoked_body(key.public.id, releases=releases, why="stolen", since_s=None, revoked_s=1_800_000_001)
    return REVOKED, name, body


def chain(*events: tuple[str, str, dict[str, Json]]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    history = History()
    for kind, subject, body in events:
        data = encode(record(kind, subject, body, history.head)) + b"\n"
        files[next_name(history, subject)] = data
        history, _ = read_history(files)
    return files


def problem(files: dict[str, bytes]) -> str:
    _, problems = read_history(files)
    (one,) = problems
    return one.message


def test_a_new_key_takes_the_place_of_the_one_that_signed_it() -> None:
    history, problems = read_history(chain(rotated(OLD, NEW), rotated(NEW, NEWER)))
    assert problems == []
    assert history.kin(OLD.public) == history.kin(NEWER.public) == (OLD.public, NEW.public, NEWER.public)
    policy = now_trusted(Policy(keys={"build": OLD.public}, threshold=1), history)
    assert policy.keys == {"build": NEWER.public}
    assert judge(sign(KIND, b"x", [NEWER]), policy, ()).holds
    assert judge(sign(KIND, b"x", [NEW]), policy, ()).holds is False


def test_the_bytes_of_events_are_the_golden_ones() -> None:
    files = chain(rotated(OLD, NEW), revoked(NEW))
    check_golden("certificates/events.txt", "".join(f"{name} {data.decode()}" for name, data in files.items()))


def test_a_project_that_names_the_new_key_has_the_same_signer() -> None:
    history, _ = read_history(chain(rotated(OLD, NEW)))
    policy = Policy(keys={"build": NEW.public}, threshold=1)
    assert now_trusted(policy, history).keys == policy.keys


def test_one_signer_under_two_names_is_refused() -> None:
    history, _ = read_history(chain(rotated(OLD, NEW)))
    with pytest.raises(InputErrors) as error:
        now_trusted(Policy(keys={"a": OLD.public, "b": NEW.public}, threshold=2), history)
    assert error.value.problems()[0].message == "the same signer as a, by records/keys/"


def test_a_rotation_that_the_old_key_did_not_sign_is_refused() -> None:
    rotation = Rotation(name="build", old=OLD.public, new=THIEF.public, made_s=1)
    envelope = decode(sign(PAYLOAD_TYPE, rotation.encoded(), (THIEF,)).encoded())
    body = rotated_body(rotation, envelope, HEAD, "mine now")
    assert problem({"0001-build.json": encode(record(ROTATED, "build", body)) + b"\n"}) == (
        "the old key did not sign the rotation"
    )


def test_a_rotation_that_the_new_key_did_not_sign_is_refused() -> None:
    rotation = Rotation(name="build", old=OLD.public, new=NEW.public, made_s=1)
    envelope = decode(sign(PAYLOAD_TYPE, rotation.encoded(), (OLD,)).encoded())
    body = rotated_body(rotation, envelope, HEAD, "somebody else's")
    assert "new key did not sign" in problem({"0001-build.json": encode(record(ROTATED, "build", body)) + b"\n"})


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([rotated(OLD, NEW), rotated(OLD, THIEF)], "the old key had ended: records/keys/0001-build.json"),
        ([revoked(OLD), rotated(OLD, THIEF)], "the old key had ended: records/keys/0001-build.json"),
        ([revoked(NEW), rotated(OLD, NEW)], "the new key had ended: records/keys/0001-build.json"),
        ([rotated(OLD, NEW), rotated(THIEF, NEW, "other")], "the new key has taken another's place already"),
    ],
)
def test_a_key_has_one_successor_and_none_after_its_end(
    events: list[tuple[str, str, dict[str, Json]]], message: str
) -> None:
    assert problem(chain(*events)) == message


def test_an_event_that_was_edited_taken_out_or_renamed_is_found() -> None:
    files = chain(revoked(THIEF, "other"), rotated(OLD, NEW))
    first, second = files
    edited = {**files, first: files[first].replace(b"stolen", b"gifted")}
    assert "does not follow the event before it" in problem(edited)
    assert "not the name of the next event" in problem({second: files[second]})
    assert "not the name of the next event" in problem({first: files[first], "0003-build.json": files[second]})
    assert "called" in problem({"0001-ann.json": files[first]})


def test_a_revoked_key_is_taken_by_nobody_who_has_the_project(tmp_path: Path) -> None:
    text = f'[tool.derive.trust.keys]\nbuild = "{OLD.public}"\n'
    (tmp_path / "pyproject.toml").write_text("[tool.derive]\n" + text)
    envelope = sign(KIND, b"x", [OLD])
    before = load_policy(tmp_path)
    assert before is not None
    assert judge(envelope, before, ()).holds
    add_event(tmp_path, *revoked(OLD))
    after = load_policy(tmp_path)
    assert after is not None
    assert judge(envelope, after, ()).revoked == ("build",)
    assert load_history(tmp_path).ends[OLD.public.id][0].upto == HEAD


def test_where_events_are_damaged_no_key_is_taken(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[tool.derive]\n[tool.derive.trust.keys]\nbuild = "{OLD.public}"\n')
    path = add_event(tmp_path, *revoked(THIEF))
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(Corrupt, match="not written as a record is"):
        load_policy(tmp_path)


def test_what_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    add_event(tmp_path, *rotated(OLD, NEW))
    with pytest.raises(InputErrors):
        add_event(tmp_path, *rotated(OLD, THIEF))
    assert [path.name for path in (tmp_path / "records/keys").iterdir()] == ["0001-build.json"]


@pytest.mark.parametrize(
    ("changes", "key"),
    [({"revoked_s": -1}, "revoked_s"), ({"since_s": LAST_S + 1}, "since_s"), ({"why": "a\nb"}, "why")],
)
def test_an_event_of_no_time_or_with_a_reason_that_cannot_be_told_is_refused(
    changes: dict[str, Json], key: str
) -> None:
    kind, subject, body = revoked(THIEF)
    data = encode(record(kind, subject, {**body, **changes})) + b"\n"
    assert problem({"0001-build.json": data}).startswith(f"{key}: not ")
