# SPDX-License-Identifier: Apache-2.0
"""Layers that are parts of trees, and an image that leaves out the empty ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.build.builders.layer import build
from derive.build.context import Context
from derive.build.fetching import StoreFetch
from derive.canonical import Digest, Json
from derive.derivations import steps
from derive.derivations.model import BuiltInput, FlatOutput, Output, ResolvedDerivation, TreeOutput
from derive.errors import Missing
from derive.images.encoding import Encoding
from derive.images.modes import ModeTable
from derive.images.oci import ImageConfig
from derive.sandbox.probe import find_sandbox
from derive.store.local import LocalStore
from derive.store.memory import MemoryStore
from derive.trees.listing import EMPTY
from support.layers import blob, tree
from support.realised import Realised

MODES: Json = ModeTable().to_document()
ENCODING: Json = Encoding().to_document()
NATIVE: Json = {"patterns": ["*.so"], "fit": True}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path) as opened:
        yield opened


def layer(store: LocalStore, given: Digest, *, from_nothing: bool = False) -> Output:
    request = ResolvedDerivation(
        builder="layer",
        version=1,
        build="any",
        host="any",
        arguments={"modes": MODES, "encoding": ENCODING, "select": NATIVE},
        inputs={"tree.0": TreeOutput(given)},
    )
    context = Context(
        name="it",
        labels=("tree",),
        store=store,
        fetch=StoreFetch(offline=True),
        sandbox=find_sandbox,
        log=lambda _: None,
        log_bytes=lambda _: None,
        jobs=1,
        scratch=store.staging.new_path(),
        cancel=threading.Event(),
        timeout_s=None,
        from_nothing=from_nothing,
    )
    return build(request, context)["out"]


def test_a_layer_that_holds_what_an_earlier_one_held_is_not_written_again_but_from_nothing(store: LocalStore) -> None:
    first = layer(store, store.add_listing(tree(store, {b"a/x.so": b"native", b"a/x.py": b"one"})))
    listing = tree(store, {b"a/x.so": b"native", b"a/x.py": b"two"})
    second = store.add_listing(listing)
    places = {file.at.blob for _, file in listing.files() if file.at is not None}
    for place in places:
        store.blob_path(place).unlink()  # whoever reads of it, fails
    with LocalStore(store.root) as fresh:  # in which no file is open yet
        assert layer(fresh, second) == first
        with pytest.raises(Missing):
            layer(fresh, second, from_nothing=True)


def test_a_layer_whose_blob_is_gone_is_written_again(store: LocalStore) -> None:
    given = store.add_listing(tree(store, {b"a/x.so": b"native"}))
    first = layer(store, given)
    store.blob_path(first.digest).unlink()
    assert layer(store, given) == first
    assert store.has_blob(first.digest)


def test_an_image_leaves_out_what_is_optional_and_empty_and_its_outputs_are_numbered_as_its_layers() -> None:
    store = MemoryStore()
    realised = Realised(store)
    trees = [store.add_listing(one) for one in (EMPTY, tree(store, {b"a": b"a"}), EMPTY, tree(store, {b"b": b"b"}))]
    parts = [steps.composed(f"p{n}", [("part", "", steps.work_tree("x", one))], {}) for n, one in enumerate(trees)]
    layers = [steps.layer(f"l{n}", [BuiltInput(part)], MODES, ENCODING) for n, part in enumerate(parts)]
    root = steps.composed("root", [(f"p{n}", "", part) for n, part in enumerate(parts)], {})
    config = ImageConfig().to_document()

    def image(*optional: int) -> tuple[list[str], list[str]]:
        given = realised(steps.image("i", "linux/amd64", config, MODES, layers, root, optional=optional))
        manifest = json.loads(blob(store, given["out"].digest))
        outputs = {role: output for role, output in given.items() if role.startswith("layer.")}
        assert list(outputs) == [f"layer.{n}" for n in range(len(outputs))]
        return [one["digest"] for one in manifest["layers"]], [str(one.digest) for one in outputs.values()]

    blobs = [
        str(output.digest) for output in (realised(one)["out"] for one in layers) if isinstance(output, FlatOutput)
    ]
    assert image() == (blobs, blobs)
    assert image(0, 1) == ([blobs[1], *blobs[2:]],) * 2
    assert image(0, 1, 2, 3) == ([blobs[1], blobs[3]],) * 2
