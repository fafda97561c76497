# SPDX-License-Identifier: Apache-2.0
"""What several failures mean together."""

from __future__ import annotations

from itertools import islice

import pytest

from derive.canonical import Digest
from derive.errors import Corrupt, DeriveError, Missing, Unavailable, UpstreamGone
from derive.net.failures import Broken, Gone, Refused, Tried, Wrong, asked_pause, delays, together, verdict
from derive.net.places import DebPath, Wanted

WANTED = Wanted(
    name="x", version="1", locator=DebPath(archive="debian", path="pool/x_1.deb"), sha256=Digest("0" * 64), size=1
)


def tried(*failures: Gone | Broken | Refused | Wrong) -> list[Tried]:
    return [Tried(place=f"http://h{index}/x", failure=failure) for index, failure in enumerate(failures)]


def test_pauses_double_up_to_the_longest() -> None:
    assert list(islice(delays(0.5, 3), 5)) == [0.5, 1, 2, 3, 3]


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 0 "}, 0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "\u0661"}, None),
        ({"retry-after": "soon", "date": "Fri, 20 Nov 2026 10:00:00 GMT"}, None),
        ({"retry-after": "Fri, 20 Nov 2026 10:00:30 GMT", "date": "Fri, 20 Nov 2026 10:00:00 GMT"}, 30),
        ({"retry-after": "Fri, 20 Nov 2026 09:00:00 GMT", "date": "Fri, 20 Nov 2026 10:00:00 GMT"}, 0),
        ({"retry-after": "Fri, 20 Nov 2026 10:00:30 GMT"}, None),
        ({"retry-after": "Fri, 20 Nov 2026 10:00:30 -0000", "date": "Fri, 20 Nov 2026 10:00:00 GMT"}, None),
    ],
)
def test_the_pause_that_an_answer_asks_for(headers: dict[str, str], pause: float | None) -> None:
    assert asked_pause(headers) == pause


def test_only_when_every_mirror_lacks_it_is_it_gone() -> None:
    assert isinstance(verdict(WANTED, tried(Gone("404"), Gone("410"))), UpstreamGone)
    mixed = verdict(WANTED, tried(Gone("404"), Broken("500")))
    assert isinstance(mixed, Unavailable)
    assert not isinstance(mixed, UpstreamGone)
    assert not isinstance(verdict(WANTED, []), UpstreamGone)


def test_wrong_bytes_outweigh_everything() -> None:
    error = verdict(WANTED, tried(Gone("404"), Wrong("served other bytes", ["expected  a", "got       b"])))
    assert isinstance(error, Corrupt)
    assert error.detail[:2] == ("expected  a", "got       b")


def test_what_archives_lack_makes_nothing_gone_and_their_wrong_bytes_no_mirror_wrong() -> None:
    wrong = Wrong("served other bytes", ["expected  a", "got       b"])
    assert isinstance(verdict(WANTED, tried(Gone("404")), tried(Broken("500"), wrong)), UpstreamGone)
    assert not isinstance(verdict(WANTED, tried(Broken("500")), tried(Gone("404"))), UpstreamGone)
    assert not isinstance(verdict(WANTED, [], tried(Gone("404"))), UpstreamGone)
    assert isinstance(verdict(WANTED, tried(Broken("500")), tried(wrong)), Corrupt)


def test_a_place_that_lets_nobody_in_is_to_be_logged_in_to() -> None:
    error = verdict(WANTED, tried(Gone("404"), Refused("403 Forbidden", status=403)))
    assert str(error.hint).startswith("log in, or set a token")


def test_several_errors_become_the_gravest_kind() -> None:
    errors: list[DeriveError] = [Unavailable(f"u{index}") for index in range(10)]
    combined = together([*errors, UpstreamGone("gone", detail=["tried"], hint="do")], 30)
    assert isinstance(combined, UpstreamGone)
    assert combined.message == "11 of 30 artifacts could not be fetched"
    assert combined.detail[:2] == ("gone", "  tried")
    assert combined.detail[-1] == "and 3 more"
    assert combined.hint == "do"


def test_one_error_stays_itself() -> None:
    error = Missing("m")
    assert together([error], 5) is error
