# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.canonical import sha256
from derive.images.docker import local_name, manifest_json
from derive.images.oci import Descriptor


def descriptor(text: bytes) -> Descriptor:
    return Descriptor(media_type="m", digest=sha256(text), size=len(text))


@pytest.mark.parametrize("name", ["probe", "ds41f", "a/b.c_d__e--f", "0"])
def test_a_name_that_docker_takes_becomes_a_local_one(name: str) -> None:
    assert local_name(name) == f"localhost/{name}:latest"


@pytest.mark.parametrize("name", ["Probe", "a:1", "a@b", "a___b", "-a", "a/", "", "é", "a\n"])
def test_a_name_that_docker_refuses_has_no_local_one(name: str) -> None:
    assert local_name(name) is None


def test_the_manifest_names_the_blobs_in_order() -> None:
    config, one, two = (descriptor(text) for text in (b"config", b"one", b"two"))
    paths = [f"blobs/sha256/{blob.digest.hex}" for blob in (config, two, one)]
    text = f'[{{"Config":"{paths[0]}","Layers":["{paths[1]}","{paths[2]}"],"RepoTags":["localhost/x:latest"]}}]'
    assert manifest_json(config, (two, one), "x") == text.encode()
    assert manifest_json(config, (two, one), "X").endswith(b'"RepoTags":null}]')
