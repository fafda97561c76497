# SPDX-License-Identifier: Apache-2.0
"""Logs of keys on a real registry: appended to, read from anywhere, and shown otherwise than they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.cache import artifact, logs, rows
from derive.cache.artifact import ENTRY_TYPE, LogPiece, log_tag
from derive.cache.chain import Alarm
from derive.cache.entry import Head
from derive.cache.logs import append, refresh
from derive.canonical import Digest, sha256
from derive.derivations.model import FlatOutput
from derive.errors import Corrupt, Unavailable
from derive.images.oci import MANIFEST_TYPE, Descriptor
from derive.net.failures import Failure, Refused
from derive.oci.remote import Remote
from derive.store.database import Database
from derive.trust.keys import SigningKey
from derive.trust.statement import Claim
from support.faults import FaultProxy
from support.oci_registry import Registry, registry
from support.pushing import remote_of

ANN, CAT, DOG = SigningKey(b"a" * 32), SigningKey(b"c" * 32), SigningKey(b"d" * 32)
KEYS = {"ann": ANN.public, "cat": CAT.public}
PLACE = "http://here/log"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def remote(real: Registry, tmp_path: Path) -> Remote:
    return remote_of(real.url, f"logs/{tmp_path.name.replace('_', '-')}")


@pytest.fixture
def make(tmp_path: Path) -> Iterator[list[Database]]:
    """Return the databases of three machines."""
    found = [Database(tmp_path / f"{name}.sqlite") for name in ("one", "two", "three")]
    yield found
    for one in found:
        one.close()


def claim(number: int) -> Claim:
    resolved = sha256(b"step %d" % number)
    return Claim(resolved=resolved, builder="script/1", outputs={"out": FlatOutput(sha256(b"%d" % number))})


def add(
    database: Database, remote: Remote, number: int, key: SigningKey = ANN, seen: dict[Digest, Head] | None = None
) -> Head:
    return append(database, PLACE, remote, key, [claim(number)], {}, seen or {}, 1, aside_s=0)


def test_a_log_longer_than_a_piece_is_read_whole_and_from_the_middle(
    remote: Remote, make: list[Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact, "SEGMENT", 3)
    writer, early, late = make
    for number in range(1, 3):
        add(writer, remote, number)
    assert refresh(early, PLACE, remote, KEYS, 5) == ()
    head = [add(writer, remote, number) for number in range(3, 9)][-1]
    for reader in (early, late):
        assert refresh(reader, PLACE, remote, KEYS, 6) == ()
        assert rows.heads(reader, PLACE) == {ANN.public.id: head}
        assert rows.count_claims(reader, PLACE) == {ANN.public.id: 8}
    assert head.sequence == 8
    pieces = [remote.manifest(log_tag(ANN.public.id, number)) for number in range(3)]
    assert [piece is None for piece in pieces] == [False, False, True]


def test_what_is_read_again_asks_for_one_manifest_of_each_key(
    real: Registry, remote: Remote, make: list[Database]
) -> None:
    add(make[0], remote, 1)
    with FaultProxy(real.host) as proxy:
        reader = remote_of(proxy.url, remote.repository)
        refresh(make[1], PLACE, reader, KEYS, 5)
        proxy.forget()
        refresh(make[1], PLACE, reader, KEYS, 6)
        assert len(proxy.seen) == len(KEYS)


def test_a_machine_that_lost_its_store_goes_on_from_the_registry(remote: Remote, make: list[Database]) -> None:
    add(make[0], remote, 1)
    head = add(make[1], remote, 2)
    assert head.sequence == 2
    assert refresh(make[0], PLACE, remote, KEYS, 5) == ()
    assert rows.heads(make[0], PLACE) == {ANN.public.id: head}


def test_a_key_that_two_write_with_at_once_is_refused(remote: Remote, make: list[Database], real: Registry) -> None:
    add(make[0], remote, 1)
    first = remote.manifest(log_tag(ANN.public.id))
    assert first is not None
    add(make[0], remote, 2)

    class Between(Remote):
        """A repository in which somebody puts the tag back right after it was moved."""

        def put_manifest(self, named: str, media_type: str, data: bytes) -> dict[str, str]:
            super().put_manifest(named, media_type, data)
            assert first is not None
            real.push_manifest(self.repository, log_tag(ANN.public.id), MANIFEST_TYPE, first)
            return {}

    remote.__class__ = Between
    with pytest.raises(Unavailable, match="somebody else writes the log of this key at the same time"):
        add(make[0], remote, 3)


def test_a_signed_fork_is_an_alarm_and_a_made_up_one_accuses_the_registry(
    remote: Remote, make: list[Database], real: Registry
) -> None:
    writer, reader, other = make
    add(writer, remote, 1)
    assert refresh(reader, PLACE, remote, KEYS, 5) == ()
    junk = b"no entry"
    real.push_blob(remote.repository, str(sha256(junk)), junk)
    made_up = LogPiece(first=1, entries=(Descriptor(media_type=ENTRY_TYPE, digest=sha256(junk), size=len(junk)),))
    real.push_manifest(remote.repository, log_tag(ANN.public.id), MANIFEST_TYPE, made_up.encoded())
    with pytest.raises(Corrupt):
        refresh(reader, PLACE, remote, KEYS, 6)
    assert rows.alarms(reader, PLACE) == ()
    # Now the key itself signs another first entry, in a repository where there is none.
    empty = remote_of(real.url, f"{remote.repository}-x")
    add(other, empty, 9)
    forked = empty.manifest(log_tag(ANN.public.id))
    assert forked is not None
    piece = json.loads(forked)["layers"][0]
    real.push_blob(remote.repository, piece["digest"], empty.read_blob(Digest.parse(piece["digest"]), 1 << 20))
    real.push_manifest(remote.repository, log_tag(ANN.public.id), MANIFEST_TYPE, forked)
    (alarm,) = refresh(reader, PLACE, remote_of(real.url, remote.repository), KEYS, 7)
    assert alarm.key == ANN.public.id
    assert alarm.what == "the log forks: another entry stands where one was seen"
    rows.forget(reader, PLACE)
    assert rows.alarms(reader, PLACE) == ()


def test_entries_that_a_witness_saw_and_that_are_not_shown_are_an_alarm(
    remote: Remote, make: list[Database], real: Registry
) -> None:
    writer, witness, reader = make
    add(writer, remote, 1)
    old = remote.manifest(log_tag(ANN.public.id))
    assert old is not None
    add(writer, remote, 2)
    assert refresh(witness, PLACE, remote, KEYS, 5) == ()
    add(witness, remote, 3, CAT, seen=rows.heads(witness, PLACE))
    real.push_manifest(remote.repository, log_tag(ANN.public.id), MANIFEST_TYPE, old)
    (alarm,) = refresh(reader, PLACE, remote, KEYS, 6)
    assert (alarm.key, alarm.what) == (ANN.public.id, "entries that cat saw are not shown")


HIDDEN = "entries that cat saw are not shown"
OTHER = "cat was shown another log"
TAG = log_tag(ANN.public.id)


def manifest(remote: Remote, tag: str = TAG) -> bytes:
    found = remote.manifest(tag)
    assert found is not None
    return found


def answering(remote: Remote, real: Registry, *answers: bytes | Exception) -> Remote:
    """Return the repository as a registry shows it that answers otherwise, one request after another, for ann's log."""
    left = list(answers)

    class Lying(Remote):
        def manifest(self, named: str) -> bytes | None:
            if named != TAG or not left:
                return super().manifest(named)
            answer = left.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    lying = remote_of(real.url, remote.repository)
    lying.__class__ = Lying
    return lying


def hide_what_cat_saw(remote: Remote, real: Registry, writer: Database, witness: Database) -> Head:
    """Have ann write two entries of which cat sees both, and show one; return the head that cat saw."""
    add(writer, remote, 1)
    old = manifest(remote)
    head = add(writer, remote, 2)
    add(witness, remote, 50, CAT, {ANN.public.id: head})
    real.push_manifest(remote.repository, TAG, MANIFEST_TYPE, old)
    return head


def detail(head: Head, shown: str, witness: str = "cat") -> tuple[str, str]:
    return (f"{witness} saw  entry {head.sequence}, {head.digest}", f"shown     {shown}")


def test_what_was_hidden_stays_an_alarm_when_the_second_look_fails(
    remote: Remote, make: list[Database], real: Registry
) -> None:
    writer, witness, reader = make
    head = hide_what_cat_saw(remote, real, writer, witness)
    lying = answering(remote, real, manifest(remote), Refused("HTTP 503"))
    with pytest.raises(Failure):
        refresh(reader, PLACE, lying, KEYS, 6)
    for now in (7, 8):
        alarms = refresh(reader, PLACE, remote, KEYS, now)
        assert alarms == (Alarm(key=ANN.public.id, what=HIDDEN, detail=detail(head, "1")),)


def test_a_reader_killed_before_it_compared_compares_the_next_time(
    remote: Remote, make: list[Database], real: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, witness, reader = make
    head = hide_what_cat_saw(remote, real, writer, witness)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(logs, "compare_seen", killed)
        with pytest.raises(KeyboardInterrupt):
            refresh(reader, PLACE, remote, KEYS, 6)
    assert sorted(one.sequence for one in rows.heads(reader, PLACE).values()) == [1, 1]
    alarms = refresh(reader, PLACE, remote, KEYS, 7)
    assert alarms == (Alarm(key=ANN.public.id, what=HIDDEN, detail=detail(head, "1")),)


def test_what_a_witness_saw_of_a_key_that_is_trusted_later_is_an_alarm_when_less_is_shown(
    remote: Remote, make: list[Database], real: Registry
) -> None:
    writer, witness, reader = make
    head = hide_what_cat_saw(remote, real, writer, witness)
    assert refresh(reader, PLACE, remote, {"cat": CAT.public}, 6) == ()
    alarms = refresh(reader, PLACE, remote, KEYS, 7)
    assert alarms == (Alarm(key=ANN.public.id, what=HIDDEN, detail=detail(head, "1")),)


def test_what_a_witness_saw_of_a_key_that_is_trusted_later_is_an_alarm_when_another_log_is_shown(
    remote: Remote, make: list[Database], real: Registry
) -> None:
    writer, witness, reader = make
    head = add(writer, remote, 1)
    add(witness, remote, 50, CAT, {ANN.public.id: head})
    assert refresh(reader, PLACE, remote, {"cat": CAT.public}, 6) == ()
    elsewhere = remote_of(real.url, f"{remote.repository}-x")
    rows.forget(writer, PLACE)
    other = add(writer, elsewhere, 9)
    real.push_blob(remote.repository, str(other.digest), elsewhere.read_blob(other.digest, 1 << 20))
    real.push_manifest(remote.repository, TAG, MANIFEST_TYPE, manifest(elsewhere))
    alarms = refresh(reader, PLACE, remote, KEYS, 7)
    assert alarms == (Alarm(key=ANN.public.id, what=OTHER, detail=detail(head, f"entry 1, {other.digest}")),)


def test_of_two_witnesses_the_one_who_saw_less_does_not_cover_the_other(
    remote: Remote, make: list[Database], real: Registry
) -> None:
    writer, witness, reader = make
    heads, shown = [], []
    for number in (1, 2, 3):
        heads.append(add(writer, remote, number))
        shown.append(manifest(remote))
    add(witness, remote, 50, CAT, {ANN.public.id: heads[2]})
    add(witness, remote, 60, DOG, {ANN.public.id: heads[1]})
    lying = answering(remote, real, shown[0], shown[1])
    alarms = refresh(reader, PLACE, lying, {**KEYS, "dog": DOG.public}, 6)
    assert alarms == (Alarm(key=ANN.public.id, what=HIDDEN, detail=detail(heads[2], "2")),)


def test_what_a_second_look_brings_is_compared_too(remote: Remote, make: list[Database], real: Registry) -> None:
    """Cat saw ann's second entry, in which ann says that she saw more of dog's log than is shown."""
    writer, witness, reader = make
    first = add(witness, remote, 60, DOG)
    hidden = add(witness, remote, 61, DOG)
    add(writer, remote, 1)
    old = manifest(remote)
    head = add(writer, remote, 2, seen={DOG.public.id: hidden})
    new = manifest(remote)
    add(witness, remote, 50, CAT, {ANN.public.id: head})
    short = LogPiece(first=1, entries=artifact.read_piece(manifest(remote, log_tag(DOG.public.id))).entries[:1])
    real.push_manifest(remote.repository, log_tag(DOG.public.id), MANIFEST_TYPE, short.encoded())
    alarms = refresh(reader, PLACE, answering(remote, real, old, new), {**KEYS, "dog": DOG.public}, 6)
    what = "entries that ann saw are not shown"
    assert alarms == (Alarm(key=DOG.public.id, what=what, detail=detail(hidden, "1", "ann")),)
    assert rows.heads(reader, PLACE)[DOG.public.id] == first


def test_a_log_that_grew_between_two_looks_is_no_alarm(remote: Remote, make: list[Database], real: Registry) -> None:
    writer, witness, reader = make
    add(writer, remote, 1)
    old = manifest(remote)
    head = add(writer, remote, 2)
    add(witness, remote, 50, CAT, {ANN.public.id: head})
    assert refresh(reader, PLACE, answering(remote, real, old), KEYS, 6) == ()
    assert rows.heads(reader, PLACE)[ANN.public.id] == head


def test_what_a_key_says_that_is_trusted_no_longer_accuses_nobody(
    remote: Remote, make: list[Database], real: Registry
) -> None:
    writer, witness, reader = make
    hide_what_cat_saw(remote, real, writer, witness)
    assert refresh(reader, PLACE, remote, {"cat": CAT.public}, 6) == ()
    assert refresh(reader, PLACE, remote, {"ann": ANN.public}, 7) == ()
