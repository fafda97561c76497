# SPDX-License-Identifier: Apache-2.0
"""The documents of a release: read back as they were written, and refused in any other form."""

from __future__ import annotations

import json

import pytest

from derive.canonical import encode, sha256
from derive.derivations.model import FlatOutput, TreeOutput
from derive.images.documents import DocumentError
from derive.releases.document import read_release
from derive.releases.facts import EngineFacts, Facts, ImageFacts, LayerFact, Realised, UpstreamFact, read_facts
from support.reported import release, word

RELEASE, _ = release("demo")


def facts() -> Facts:
    steps = {
        word("one"): Realised(name="one", builder="script/1", outputs={"out": TreeOutput(word("tree"))}),
        word("two"): Realised(name="two", builder="unpack/1", outputs={"out": TreeOutput(word("facts"), "facts")}),
        word("three"): Realised(name="three", builder="fetch-deb/1", outputs={"out": FlatOutput(word("deb"))}),
    }
    layer = LayerFact(name="base", digest=word("layer"), size_bytes=7, diff_id=word("tar"))
    image = ImageFacts(config=word("config"), layers=(layer,), capabilities=("rdma",), derivations=steps)
    tool = UpstreamFact(
        name="tool",
        commit="a" * 40,
        tree=TreeOutput(word("tree")),
        series=("0001-a.patch",),
        head=word("head"),
        patched=TreeOutput(word("patched")),
    )
    plain = UpstreamFact(name="plain", commit=None, tree=TreeOutput(word("tree")), series=(), head=None, patched=None)
    return Facts(
        release=RELEASE.digest,
        images={"linux/arm64": image},
        upstreams=(plain, tool),
        kernels=({"unit": "a/b", "part": "device"},),
        engine={"linux/amd64": EngineFacts(derivation=word("engine"), output=None, derivations=steps)},
    )


def test_a_release_is_read_back_as_it_was_written() -> None:
    assert read_release(RELEASE.encoded()) == RELEASE
    assert sha256(RELEASE.encoded()) == RELEASE.digest


def test_facts_are_read_back_as_they_were_written() -> None:
    assert read_facts(facts().encoded()) == facts()


@pytest.mark.parametrize(
    "path",
    [
        ("recipe", "name"),
        ("recipe", "digest"),
        ("images", "linux/amd64", "digest"),
        ("images", "linux/arm64", "derivation"),
        ("settings", "build-platform"),
        ("settings", "default-image"),
        ("lock", "lock/wheels.lock.json"),
        ("content", "patches/tool/series"),
        ("recipes", "demo"),
        ("shapes", "ring", "bundle"),
        ("shapes", "ring", "deployable"),
        ("engine", "source"),
        ("engine", "derivations", "linux/arm64"),
    ],
)
def test_no_key_of_a_release_may_be_absent_or_of_another_type(path: tuple[str, ...]) -> None:
    for change in ("absent", "number"):
        document = json.loads(RELEASE.encoded())
        inner = document
        for key in path[:-1]:
            inner = inner[key]
        if change == "absent" and path[0] not in ("lock", "content", "recipes") and path[-1] != "linux/arm64":
            del inner[path[-1]]
        else:
            inner[path[-1]] = 7
        with pytest.raises(ValueError, match=r"."):
            read_release(encode(document))


def test_what_stands_in_another_layout_or_has_more_keys_is_refused() -> None:
    document = json.loads(RELEASE.encoded())
    for data in (json.dumps(document, indent=1).encode(), encode({**document, "more": 1}), b"", RELEASE.encoded()[1:]):
        with pytest.raises(DocumentError):
            read_release(data)
    with pytest.raises(DocumentError):
        read_facts(RELEASE.encoded())
    with pytest.raises(DocumentError):
        read_facts(facts().encoded() + b"\n")


def test_a_platform_that_is_none_is_refused() -> None:
    document = json.loads(RELEASE.encoded())
    document["images"]["any"] = document["images"].pop("linux/arm64")
    with pytest.raises(DocumentError, match="no platform: 'any'"):
        read_release(encode(document))
