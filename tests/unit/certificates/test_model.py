# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace

import pytest

from derive.canonical import decode, encode, sha256
from derive.certificates.model import CertifiedImage, Maker, read_certificate
from derive.errors import Corrupt
from derive.trust.dsse import sign
from derive.trust.statement import PAYLOAD_TYPE
from support.certificates import ANN, BEN, certificate, host, maker
from support.golden import check_golden

ONE = certificate(host("one"))
TWO_IMAGES = replace(
    ONE,
    images={
        "linux/arm64": CertifiedImage(
            name="small", digest=sha256(b"arm"), derivation=sha256(b"arm derivation"), steps=8
        ),
        **ONE.images,
    },
)
BUILT_BY: tuple[Maker, ...] = (maker("one"), maker("two", buildkit="v0.13.2"))


def test_the_bytes_of_a_certificate_are_the_golden_ones() -> None:
    text = "\n".join(one.encoded().decode() for one in (TWO_IMAGES, replace(ONE, release=None)))
    check_golden("certificates/statements.txt", text + "\n")


def test_the_order_of_images_moves_no_byte() -> None:
    assert list(TWO_IMAGES.images) != sorted(TWO_IMAGES.images)
    turned = replace(TWO_IMAGES, images=dict(sorted(TWO_IMAGES.images.items(), reverse=True)))
    assert turned.encoded() == TWO_IMAGES.encoded()


def test_a_certificate_is_read_as_it_was_written() -> None:
    data = sign(PAYLOAD_TYPE, TWO_IMAGES.encoded(), (ANN, BEN)).encoded()
    assert read_certificate(data)[0] == TWO_IMAGES


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("predicate", "made_s"), "yesterday"),
        (("predicate", "checked"), "believed"),
        (("predicate", "images"), {}),
        (("predicate", "more"), 1),
        (("predicateType",), "urn:derive:realisations:1"),
        (("predicate", "host", "cores"), True),
        (("subject",), []),
    ],
)
def test_what_a_writer_would_not_have_written_is_refused(path: tuple[str, ...], value: object) -> None:
    document = json.loads(ONE.encoded())
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(Corrupt):
        read_certificate(sign(PAYLOAD_TYPE, encode(document), (ANN,)).encoded())


def test_a_certificate_in_another_layout_is_refused() -> None:
    loose = json.dumps(decode(ONE.encoded()), indent=1).encode()
    with pytest.raises(Corrupt, match="not written as one is"):
        read_certificate(sign(PAYLOAD_TYPE, loose, (ANN,)).encoded())


def test_a_certificate_by_several_builders_is_read_as_it_was_written() -> None:
    one = replace(ONE, builders=BUILT_BY)
    found, _ = read_certificate(sign(PAYLOAD_TYPE, one.encoded(), (ANN,)).encoded())
    assert found == one


@pytest.mark.parametrize(
    ("key", "value"),
    [("checked", "rebuilt"), ("builders", []), ("builders", [BUILT_BY[0].document()]), ("builders", None)],
)
def test_builders_that_are_not_several_who_were_compared_are_refused(key: str, value: object) -> None:
    document = json.loads(replace(ONE, builders=BUILT_BY).encoded())
    document["predicate"][key] = value
    with pytest.raises(Corrupt):
        read_certificate(sign(PAYLOAD_TYPE, encode(document), (ANN,)).encoded())


def test_checked_by_builders_without_any_is_refused() -> None:
    document = json.loads(ONE.encoded())
    document["predicate"]["checked"] = "builders"
    with pytest.raises(Corrupt):
        read_certificate(sign(PAYLOAD_TYPE, encode(document), (ANN,)).encoded())
