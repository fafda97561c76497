# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from derive.canonical import Digest, sha256
from derive.certificates.judge import Order, Unread, lacking, stand, unnamed
from derive.trust.history import History
from derive.trust.policy import Policy
from support.certificates import (
    AMD64,
    ANN,
    BEN,
    EVE,
    KEYS,
    NOTHING,
    OTHER,
    POLICY,
    WANTED,
    certificate,
    held,
    host,
    maker,
    revoked,
    standing,
)

ONE, TWO = host("one"), host("two")


def test_two_builders_on_unlike_hosts_who_say_the_same_are_enough() -> None:
    found = standing(held(certificate(ONE), ANN), held(certificate(TWO), BEN))
    assert found.holds
    assert found.counted == {AMD64: ("ann", "ben")}
    assert found.likeness == ("ann and ben: unlike hosts; the same architecture x86_64, CPU model EPYC, kernel 6.1",)


def test_one_builder_on_two_hosts_counts_once() -> None:
    found = standing(held(certificate(ONE), ANN), held(certificate(TWO), ANN))
    assert not found.holds
    assert lacking(found) == (f"{AMD64}: 1 builder of 2 (ann)",)


def test_two_builders_on_one_host_count_once_unless_hosts_do_not_matter() -> None:
    both = [held(certificate(ONE), ANN), held(certificate(ONE), BEN)]
    assert not standing(*both).holds
    assert stand(WANTED, both, POLICY, History(), NOTHING, need=2, unlike_hosts=False).holds


def test_two_containers_of_one_machine_are_one_host() -> None:
    first, second = host("first", "boot"), host("second", "boot")
    found = standing(held(certificate(first), ANN), held(certificate(second), BEN))
    assert not found.holds
    assert found.likeness == ("ann and ben: one machine under two names, as containers are",)


WORKERS = (maker("far", buildkit="v0.13.2"), maker("farther", buildkit="v0.13.2"))


def test_who_had_workers_alone_build_counts_where_nobody_else_does() -> None:
    by_workers = held(replace(certificate(ONE), builders=WORKERS), ANN)
    alone = standing(by_workers, need=1)
    assert alone.counted == {AMD64: ("ann",)}
    assert alone.holds
    found = standing(by_workers, held(certificate(TWO), BEN))
    assert found.counted == {AMD64: ("ben",)}, "ben may have built on one of these workers"
    assert found.likeness[-1].startswith("ann: had workers alone build, whose machines are not known")


def test_two_who_had_workers_alone_build_count_as_one() -> None:
    both = [held(replace(certificate(on), builders=WORKERS), key) for on, key in ((ONE, ANN), (TWO, BEN))]
    assert standing(*both).counted == {AMD64: ("ann",)}


def test_who_built_here_and_on_a_worker_counts_on_the_host_here() -> None:
    here = held(replace(certificate(ONE), builders=(maker("one"), WORKERS[0])), ANN)
    assert standing(here, held(certificate(TWO), BEN)).counted == {AMD64: ("ann", "ben")}
    assert not standing(here, held(certificate(ONE), BEN)).holds, "one machine, whoever else built"


def test_a_key_that_the_project_does_not_name_as_a_builder_does_not_count() -> None:
    policy = Policy(keys=KEYS, threshold=1, builders=("ben",))
    found = standing(held(certificate(ONE), ANN, EVE), policy=policy, need=1)
    assert not found.holds
    assert [(one.name, one.worth) for one in found.judged[0].signed] == [("ann", "no builder"), (None, "unknown")]


def test_a_signature_over_something_else_is_called_wrong() -> None:
    right, other = held(certificate(ONE), ANN), held(certificate(TWO), ANN)
    forged = type(right)(
        file="forged",
        digest=right.digest,
        certificate=other.certificate,
        envelope=type(right.envelope)(
            payload_type=right.envelope.payload_type,
            payload=other.envelope.payload,
            signatures=right.envelope.signatures,
        ),
    )
    found = standing(forged, need=1)
    assert not found.holds
    assert [one.worth for one in found.judged[0].signed] == ["wrong"]


def test_a_builder_who_names_another_image_for_the_release_is_an_alarm_whatever_others_say() -> None:
    agree = [held(certificate(ONE), ANN), held(certificate(TWO), BEN)]
    found = standing(*agree, held(certificate(host("three"), OTHER), EVE))
    assert found.holds, "a stranger proves nothing and breaks nothing"
    found = standing(*agree, held(certificate(host("three"), OTHER), ANN, file="third.dsse.json"))
    assert not found.holds
    assert found.alarms == (f"third.dsse.json: ann says that the image small of {AMD64} is {OTHER}",)


def test_another_image_of_the_same_derivation_contradicts_also_in_another_release_and_in_none() -> None:
    for release in (sha256(b"another release"), None):
        found = standing(held(certificate(ONE, OTHER, release=release), ANN))
        assert found.alarms
    elsewhere = certificate(ONE, OTHER, release=sha256(b"another release"), derivation=sha256(b"another"))
    assert not standing(held(elsewhere, ANN)).alarms


def test_a_certificate_of_another_release_does_not_count_though_the_image_is_the_same() -> None:
    found = standing(held(certificate(ONE, release=sha256(b"another release")), ANN), need=1)
    assert not found.holds
    assert found.judged[0].elsewhere.startswith("about another release")


def test_what_cannot_be_read_is_listed_and_breaks_nothing() -> None:
    unread = Unread(file="a.dsse.json", why="no envelope")
    found = stand(WANTED, [unread, held(certificate(ONE), ANN)], POLICY, History(), NOTHING, need=1)
    assert found.holds
    assert found.unread == (unread,)


def test_of_each_certificate_that_is_not_used_it_is_said_why() -> None:
    counts = held(certificate(ONE), ANN, file="1")
    others = [
        held(certificate(ONE), EVE, file="2"),
        held(certificate(TWO, release=None), BEN, file="3"),
        held(certificate(TWO), file="4"),
        held(certificate(TWO, OTHER), BEN, file="6"),
    ]
    unread = Unread(file="5", why="no envelope")
    found = stand(WANTED, [unread, *others, counts], POLICY, History(), NOTHING, need=1)
    assert found.used == (counts.digest,)
    assert unnamed(found) == (
        f"2: signed by {EVE.public.id.short}: the project does not name this key",
        "3: about images alone",
        "4: nobody signed it",
        "5: no envelope",
        f"6: ben says otherwise of {AMD64}",
    )


# Keys that ended

RECORDS = [sha256(bytes([number])) for number in range(4)]


@pytest.mark.parametrize(
    ("first", "upto", "counts"),
    [
        (2, RECORDS[2], True),  # named by the very record that was the last before the key ended
        (3, RECORDS[2], False),
        (None, RECORDS[2], False),
        (1, None, False),
        (1, sha256(b"a record that is not here"), False),
    ],
)
def test_what_a_revoked_key_signed_counts_where_an_older_record_names_it(
    first: int | None, upto: Digest | None, counts: bool
) -> None:
    one = held(certificate(ONE), ANN)
    named = {} if first is None else {one.digest: first}
    order = Order(numbers={digest: number for number, digest in enumerate(RECORDS)}, named=named)
    found = standing(one, need=1, history=revoked(ANN.public.id, upto), order=order)
    assert found.holds is counts
    assert found.judged[0].signed[0].worth == ("builder" if counts else "ended")


def test_a_back_dated_certificate_of_a_revoked_key_does_not_count() -> None:
    old = replace(certificate(ONE), made_s=1)
    order = Order(numbers={RECORDS[1]: 1}, named={})
    assert not standing(held(old, ANN), need=1, history=revoked(ANN.public.id, RECORDS[1]), order=order).holds


def test_a_key_that_this_user_revoked_counts_for_nothing() -> None:
    one = held(certificate(ONE), ANN)
    found = stand(WANTED, [one], POLICY, History(), NOTHING, need=1, revoked=[ANN.public.id])
    assert not found.holds
