# SPDX-License-Identifier: Apache-2.0
"""A capsule's document, manifest and index: the same bytes from any order, and nothing else is taken for one."""

from __future__ import annotations

import json

import pytest

from derive.canonical import encode, sha256
from derive.capsule.model import CapsuleDocument, Use, parts_of, read_document
from derive.capsule.oci import Listed, index_of, manifest_of, read_index, read_manifest, require_version
from derive.errors import Corrupt

ONE, TWO, NAR = sha256(b"one"), sha256(b"two"), sha256(b"nar")
USES = [
    (Use(kind="fetch-deb", name="a_1.deb"), ONE, 3),
    (Use(kind="content", name="lock/base.lock.json"), TWO, 3),
    (Use(kind="fetch-deb", name="also_1.deb"), ONE, 3),
    (Use(kind="fetch-git", name="tool 1"), NAR, 8),
]


def document(*, backwards: bool = False) -> CapsuleDocument:
    uses = list(reversed(USES)) if backwards else USES
    return CapsuleDocument(
        name="r-1",
        release=sha256(b"release"),
        platforms=("linux/amd64",),
        engine=(),
        parts=parts_of(uses),
        trees={NAR: TWO},
    )


def test_a_document_is_read_back_and_is_the_same_from_any_order() -> None:
    data = document().encoded()
    assert data == document(backwards=True).encoded()
    assert read_document(data, "here") == document()
    assert document().of("fetch-deb") == {"a_1.deb": ONE, "also_1.deb": ONE}
    assert document().size == 14


def test_a_blob_of_two_sizes_is_refused() -> None:
    with pytest.raises(ValueError, match="two sizes"):
        parts_of([*USES, (USES[0][0], ONE, 4)])


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("derive", "capsule/2", "not a capsule/1 document"),
        ("platforms", ["linux/386"], "none of any, linux/amd64, linux/arm64: 'linux/386'"),
        ("blobs", [{"sha256": ONE.hex, "size_bytes": 1, "for": []}], "one that is for nothing"),
        ("blobs", [{"sha256": ONE.hex, "size_bytes": -1, "for": [{"kind": "a", "name": "b"}]}], "below 0"),
        ("more", 1, "unknown or absent keys: more"),
        ("trees", {NAR.hex: 1}, "not text"),
    ],
)
def test_what_is_no_document_of_a_capsule_is_refused_with_its_key(key: str, value: object, words: str) -> None:
    changed = {**json.loads(document().encoded()), key: value}
    with pytest.raises(Corrupt) as caught:
        read_document(encode(changed), "there")
    assert caught.value.where == "there"
    assert words in caught.value.message


def test_a_document_in_another_layout_is_refused() -> None:
    loose = json.dumps(json.loads(document().encoded()), indent=1).encode()
    with pytest.raises(Corrupt, match="not written as one is"):
        read_document(loose, "there")


def test_a_manifest_names_the_document_and_every_blob() -> None:
    manifest = read_manifest(manifest_of(document()), "here")
    assert manifest.document.digest == sha256(document().encoded())
    assert manifest.blobs == {ONE: 3, TWO: 3, NAR: 8}


def test_an_index_does_not_tell_in_which_order_capsules_were_added_and_passes_others_over() -> None:
    first, second = Listed(name="a", manifest=ONE, size=1), Listed(name="b", manifest=TWO, size=2)
    assert index_of([second, first]) == index_of([first, second, first])
    data = json.loads(index_of([first]))
    data["manifests"].append({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": str(NAR), "size": 9})
    assert read_index(json.dumps(data).encode(), "here") == (first,)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"manifests": 1}', b'{"manifests": [1]}'])
def test_what_is_no_index_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt, match="no index of an OCI layout"):
        read_index(data, "here")


def test_a_size_below_zero_is_refused_in_manifest_and_index() -> None:
    data = manifest_of(document())
    stated = json.loads(data)
    stated["layers"][0]["size"] = -1
    with pytest.raises(Corrupt, match="size: below 0: -1"):
        read_manifest(encode(stated), "here")
    index = json.loads(index_of([Listed(name="a", manifest=sha256(data), size=len(data))]))
    index["manifests"][0]["size"] = -1
    with pytest.raises(Corrupt, match="size: below 0: -1"):
        read_index(encode(index), "here")


def test_a_layout_of_another_version_or_of_none_is_refused() -> None:
    require_version(b'{"imageLayoutVersion":"1.0.0"}', "here")
    with pytest.raises(Corrupt, match="an OCI layout of another version") as refused:
        require_version(b'{"imageLayoutVersion":"9.9.9"}', "here")
    assert refused.value.detail == ("expected  imageLayoutVersion 1.0.0", "got       imageLayoutVersion 9.9.9")
    for data in (b"{}", b"imageLayoutVersion", b'{"imageLayoutVersion":1}', b"[]"):
        with pytest.raises(Corrupt, match="it says no version"):
            require_version(data, "here")
