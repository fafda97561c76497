# SPDX-License-Identifier: Apache-2.0
"""The documents of a release: read back as they were written, and refused in any other form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from derive.canonical import encode, sha256
from derive.derivations.model import FlatOutput, TreeOutput
from derive.images.documents import DocumentError
from derive.releases.document import read_release
from derive.releases.facts import EngineFacts, Facts, ImageFacts, LayerFact, Realised, UpstreamFact, read_facts
from support.reported import release, word

RELEASE, _ = release("demo")


def facts() -> Facts:
    lower = tuple(sorted((word("two"), word("three"))))
    steps = {
        word("one"): Realised(name="one", builder="script/1", outputs={"out": TreeOutput(word("tree"))}, inputs=lower),
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


def table(document: dict[str, Any]) -> dict[str, Any]:
    found = document["images"]["linux/arm64"]["derivations"]
    assert isinstance(found, dict)
    return found


def test_inputs_are_places_in_the_sorted_list_of_ids() -> None:
    rows = table(json.loads(facts().encoded()))
    ids = sorted(rows)
    assert {rows[ids[place]]["name"] for place in rows[word("one").hex]["inputs"]} == {"two", "three"}
    assert [rows[word(name).hex]["inputs"] for name in ("two", "three")] == [[], []]


@pytest.mark.parametrize("inputs", [[3], [-1], [True], ["0"], [0.0], [0, 0], [2, 1], 1, None])
def test_places_outside_unsorted_or_of_another_type_are_refused(inputs: object) -> None:
    document = json.loads(facts().encoded())
    table(document)[word("two").hex]["inputs"] = inputs
    data = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(DocumentError):
        read_facts(data)


@pytest.mark.parametrize("others", [("one",), ("two",)])
def test_derivations_that_are_built_from_each_other_are_refused(others: tuple[str, ...]) -> None:
    document = json.loads(facts().encoded())
    rows = table(document)
    rows[word("two").hex]["inputs"] = sorted(sorted(rows).index(word(name).hex) for name in others)
    with pytest.raises(DocumentError, match=r"built from each other: .*two"):
        read_facts(encode(document))


def test_a_platform_that_is_none_is_refused() -> None:
    document = json.loads(RELEASE.encoded())
    document["images"]["any"] = document["images"].pop("linux/arm64")
    with pytest.raises(DocumentError, match="no platform: 'any'"):
        read_release(encode(document))
