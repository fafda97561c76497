# SPDX-License-Identifier: Apache-2.0
"""Logs of keys on a real registry: appended to, read from anywhere, and shown otherwise than they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.cache import artifact, rows
from derive.cache.artifact import ENTRY_TYPE, LogPiece, log_tag
from derive.cache.entry import Head
from derive.cache.logs import append, refresh
from derive.canonical import Digest, sha256
from derive.derivations.model import FlatOutput
from derive.errors import Corrupt, Unavailable
from derive.images.oci import MANIFEST_TYPE, Descriptor
from derive.oci.remote import Remote
from derive.store.database import Database
from derive.trust.keys import SigningKey
from derive.trust.statement import Claim
from support.faults import FaultProxy
from support.oci_registry import Registry, registry
from support.pushing import remote_of

ANN, CAT = SigningKey(b"a" * 32), SigningKey(b"c" * 32)
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
