# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from derive.cache.chain import Shown, compare_seen, follow, require_chain, withheld
from derive.cache.entry import Cost, Entry, Head, read_entry
from derive.canonical import Digest, encode, sha256
from derive.derivations.model import FlatOutput
from derive.errors import Corrupt
from derive.trust.dsse import sign
from derive.trust.keys import SigningKey
from derive.trust.statement import PAYLOAD_TYPE, Claim

ANN, CAT = SigningKey(b"a" * 32), SigningKey(b"c" * 32)
LOG = "0" * 32


def entry(sequence: int = 1, previous: Digest | None = None, **more: object) -> Entry:
    resolved = sha256(b"step %d" % sequence)
    claim = Claim(resolved=resolved, builder="script/1", outputs={"out": FlatOutput(sha256(b"out"))})
    return Entry(
        log=LOG,
        sequence=sequence,
        previous=previous,
        made_s=5,
        claims=(claim,),
        costs={resolved: Cost(name="hello", size_bytes=3, duration_ns=4)},
        **more,  # type: ignore[arg-type]
    )


def chain(count: int) -> list[tuple[Digest, Entry]]:
    found: list[tuple[Digest, Entry]] = []
    for number in range(1, count + 1):
        one = entry(number, found[-1][0] if found else None)
        found.append((sha256(one.signed(ANN)), one))
    return found


def head(number: int, digest: Digest) -> Head:
    return Head(log=LOG, sequence=number, digest=digest)


def test_an_entry_comes_back_as_it_was_signed() -> None:
    seen = {CAT.public.id: head(7, sha256(b"seven"))}
    made = entry(seen=seen)
    assert read_entry(made.signed(ANN), ANN.public) == made


def test_an_entry_that_another_key_signed_is_refused() -> None:
    with pytest.raises(Corrupt, match="the log's own key did not sign"):
        read_entry(entry().signed(CAT), ANN.public)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b'"sequence":1', b'"sequence":0', "not a whole number"),
        (b'"log":"00', b'"log":"xx', "32 hex digits"),
        (b'"made_s":5', b'"made_s":5.0', "cannot be read"),
        (b"cache-entry:1", b"cache-entry:2", "not a statement of type"),
        (b'"derive":"cache-entry/1"', b'"derive":"cache-entry/2"', "not written as an entry is"),
    ],
)
def test_a_signed_document_that_is_no_entry_is_refused(old: bytes, new: bytes, words: str) -> None:
    payload = entry().encoded()
    assert old in payload
    with pytest.raises(Corrupt, match=words):
        read_entry(sign(PAYLOAD_TYPE, payload.replace(old, new), [ANN]).encoded(), ANN.public)


def test_the_statement_s_digest_is_what_the_entry_is_about() -> None:
    made = entry()
    from derive.trust.statement import claims_document

    assert sha256(encode(claims_document(made.claims))).hex.encode() in made.encoded()


def test_entries_that_follow_each_other_are_taken() -> None:
    entries = chain(3)
    require_chain(None, entries)
    require_chain(head(1, entries[0][0]), entries[1:])


def test_a_gap_another_first_and_another_log_are_refused() -> None:
    entries = chain(3)
    with pytest.raises(Corrupt, match="entry 3 does not follow entry 1"):
        require_chain(None, [entries[0], entries[2]])
    with pytest.raises(Corrupt, match="entry 2 does not follow entry 1"):
        require_chain(head(1, sha256(b"other")), entries[1:])
    with pytest.raises(Corrupt, match="of another log"):
        require_chain(None, [entries[0], (entries[1][0], replace(entries[1][1], log="1" * 32))])


def test_a_log_that_goes_on_is_no_alarm() -> None:
    shown = [(number, sha256(b"%d" % number)) for number in (1, 2, 3)]
    assert follow(ANN.public.id, None, shown) is None
    assert follow(ANN.public.id, head(2, sha256(b"2")), shown[1:]) is None
    assert follow(ANN.public.id, head(3, sha256(b"3")), shown) is None


def test_a_log_that_goes_back_or_forks_is_an_alarm() -> None:
    back = follow(ANN.public.id, head(3, sha256(b"3")), [(2, sha256(b"2"))])
    gone = follow(ANN.public.id, head(1, sha256(b"1")), [])
    fork = follow(ANN.public.id, head(2, sha256(b"2")), [(2, sha256(b"other")), (3, sha256(b"3"))])
    assert back is not None
    assert gone is not None
    assert fork is not None
    assert back.what == gone.what == "the log goes back: entries that were there are gone"
    assert fork.what == "the log forks: another entry stands where one was seen"
    assert str(sha256(b"other")) in fork.detail[1]


def test_what_a_witness_saw_agrees_with_what_is_shown() -> None:
    shown = {ANN.public.id: Shown(log=LOG, digests={1: sha256(b"1"), 2: sha256(b"2")})}
    assert compare_seen("cat", {ANN.public.id: [head(2, sha256(b"2"))]}, shown) == ((), {})


def test_another_entry_and_another_log_than_a_witness_saw_are_alarms() -> None:
    shown = {ANN.public.id: Shown(log=LOG, digests={1: sha256(b"1")})}
    (other,), behind = compare_seen("cat", {ANN.public.id: [head(1, sha256(b"x"))]}, shown)
    (log,), _ = compare_seen("cat", {ANN.public.id: [replace(head(1, sha256(b"1")), log="1" * 32)]}, shown)
    assert other.what == log.what == "cat was shown another log"
    assert not behind


def test_a_witness_who_saw_more_has_the_log_read_again() -> None:
    shown = {ANN.public.id: Shown(log=LOG, digests={1: sha256(b"1")})}
    later = head(2, sha256(b"2"))
    assert compare_seen("cat", {ANN.public.id: [later]}, shown) == ((), {ANN.public.id: later})
    assert compare_seen("cat", {ANN.public.id: [later]}, {}) == ((), {ANN.public.id: later})
    alarm = withheld(ANN.public.id, "cat", later, None)
    assert alarm.what == "entries that cat saw are not shown"
    assert "none" in alarm.detail[1]


def test_of_all_that_a_witness_saw_an_old_head_is_compared_and_the_highest_is_missed() -> None:
    shown = {ANN.public.id: Shown(log=LOG, digests={1: sha256(b"1"), 2: sha256(b"2")})}
    fits, high, higher = head(1, sha256(b"1")), head(3, sha256(b"3")), head(4, sha256(b"4"))
    assert compare_seen("cat", {ANN.public.id: [higher, fits, high]}, shown) == ((), {ANN.public.id: higher})
    (alarm,), behind = compare_seen("cat", {ANN.public.id: [higher, head(1, sha256(b"x"))]}, shown)
    assert alarm.what == "cat was shown another log"
    assert alarm.detail == (f"cat saw  entry 1, {sha256(b'x')}", f"shown     entry 1, {sha256(b'1')}")
    assert behind == {}
