# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.canonical import encode
from derive.images.compressor import KNOWN_ANSWERS
from derive.images.encoding import Encoding


def test_an_encoding_survives_its_document() -> None:
    encoding = Encoding(level=9)
    assert Encoding.from_document(encoding.to_document()) == encoding
    assert encode(Encoding().to_document()) == (
        b'{"carry":[],"compressor":"libdeflate","derive":"layer-encoding/1",'
        b'"known-answer":"sha256:' + KNOWN_ANSWERS[6].encode() + b'",'
        b'"level":6,"name":"gzip-members/1","segment":1048576}'
    )


def test_an_encoding_that_carries_states_what_and_from_which_size() -> None:
    encoding = Encoding(name="gzip-members/2", level=1)
    assert Encoding.from_document(encoding.to_document()) == encoding
    assert encode(encoding.to_document()) == (
        b'{"carry":{"from":"wheels","least":65536},"compressor":"libdeflate","derive":"layer-encoding/2",'
        b'"known-answer":"sha256:' + KNOWN_ANSWERS[1].encode() + b'",'
        b'"level":1,"name":"gzip-members/2","segment":1048576}'
    )
    assert (encoding.carries, Encoding().carries) == (True, False)


@pytest.mark.parametrize(
    "change",
    [
        {"carry": [{}]},
        {"level": 13},
        {"level": True},
        {"name": "zstd/1"},
        {"segment": 1},
        {"known-answer": "x"},
        {"a": 1},
        {"derive": "layer-encoding/3"},
        {"derive": "layer-encoding/2"},
        {"name": "gzip-members/2"},
        {"name": "gzip-members/2", "derive": "layer-encoding/2"},
        {"name": "gzip-members/2", "derive": "layer-encoding/2", "carry": {"from": "wheels", "least": 1}},
    ],
    ids=repr,
)
def test_an_encoding_that_this_program_lacks_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"absent|not |levels|unknown|other settings|no layer encoding"):
        Encoding.from_document({**Encoding().to_document(), **change})  # type: ignore[dict-item]


def test_only_known_encodings_can_be_made() -> None:
    with pytest.raises(ValueError, match="unknown layer encoding"):
        Encoding(name="gzip/1")
    with pytest.raises(ValueError, match="levels 1 to 12"):
        Encoding(level=0)
