# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.errors import InputErrors
from derive.trust.history import End, History
from derive.trust.keys import SigningKey
from derive.trust.listed import find_key, listed_keys
from derive.trust.policy import Policy

ANN, BEN, EVE = (SigningKey(bytes([number]) * 32).public for number in (1, 2, 3))
POLICY = Policy(keys={"build": ANN, "ben": BEN}, threshold=1)
KEYS = listed_keys({"ann": ANN}, POLICY, History(), {EVE.id: "eve", BEN.id: ""})
NEW = SigningKey(b"\7" * 32).public
ROTATED = End(file="records/keys/0001-build.json", cause="rotated", upto=None, made_s=1_800_000_000, why="a year")
STOLEN = End(file="records/keys/0002-build.json", cause="revoked", upto=None, made_s=1_800_000_001, why="stolen")


def rotated(*more: End) -> History:
    """Return the history in which NEW took ANN's place; ``more`` are ends of NEW."""
    ends = {ANN.id: (ROTATED,), **({NEW.id: more} if more else {})}
    return History(ends=ends, newer={ANN.id: NEW}, older={NEW.id: ANN})


def test_each_key_stands_once_with_all_its_names() -> None:
    assert [(key.names, key.own, key.trusted, key.revoked) for key in KEYS] == [
        (("ann", "build"), True, ("build",), False),
        (("ben",), False, ("ben",), True),
        (("eve",), False, (), True),
    ]


def test_of_a_revoked_id_the_key_may_be_unknown() -> None:
    assert [key.public for key in KEYS] == [ANN, BEN, None]


@pytest.mark.parametrize("text", ["ann", "build", ANN.id.hex, ANN.id.hex[:12], str(ANN.id)])
def test_a_key_is_found_by_any_name_or_its_id(text: str) -> None:
    assert find_key(text, KEYS).id == ANN.id


def test_a_whole_id_need_not_be_known() -> None:
    other = SigningKey(bytes(32)).public.id
    assert find_key(str(other), KEYS).id == other


@pytest.mark.parametrize("text", ["", "nobody", ANN.id.hex[:11], "f" * 12, "sha256:", "../ann", "\udcff"])
def test_what_no_key_is_called_is_refused(text: str) -> None:
    with pytest.raises(InputErrors):
        find_key(text, KEYS)


def test_one_name_of_two_keys_is_ambiguous() -> None:
    keys = listed_keys({"ann": ANN}, Policy(keys={"ann": BEN}, threshold=1), History(), {})
    with pytest.raises(InputErrors) as caught:
        find_key("ann", keys)
    assert sorted(caught.value.problems()[0].detail) == sorted(
        [f"may be    {ANN.id}: yours, and not trusted here", f"may be    {BEN.id}: in use, trusted here as ann"]
    )


def test_a_key_that_was_rotated_is_none_that_was_revoked() -> None:
    keys = listed_keys({}, Policy(keys={"build": NEW}, threshold=1), rotated(), {})
    assert {one.id: (one.names, one.trusted, one.rotated, one.revoked) for one in keys} == {
        ANN.id: (("build",), (), ROTATED, False),
        NEW.id: (("build",), ("build",), None, False),
    }


def test_who_names_a_signer_whose_key_was_rotated_is_told_which_key_is_which() -> None:
    keys = listed_keys({}, Policy(keys={"build": NEW}, threshold=1), rotated(STOLEN), {ANN.id: ""})
    with pytest.raises(InputErrors) as caught:
        find_key("build", keys)
    (problem,) = caught.value.problems()
    assert sorted(problem.detail) == sorted(
        [f"may be    {ANN.id}: rotated 2027-01-15, see {ROTATED.file}; revoked", f"may be    {NEW.id}: revoked"]
    )
    assert problem.hint == "give its id, of which 12 digits do"
    assert find_key(ANN.id.hex[:12], keys).id == ANN.id
