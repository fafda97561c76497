# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.errors import InputErrors
from derive.trust.keys import SigningKey
from derive.trust.listed import find_key, listed_keys
from derive.trust.policy import Policy

ANN, BEN, EVE = (SigningKey(bytes([number]) * 32).public for number in (1, 2, 3))
POLICY = Policy(keys={"build": ANN, "ben": BEN}, threshold=1)
KEYS = listed_keys({"ann": ANN}, POLICY, {EVE.id: "eve", BEN.id: ""})


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
    keys = listed_keys({"ann": ANN}, Policy(keys={"ann": BEN}, threshold=1), {})
    with pytest.raises(InputErrors) as caught:
        find_key("ann", keys)
    assert len(caught.value.problems()[0].detail) == 2
