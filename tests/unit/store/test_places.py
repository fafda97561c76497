# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.derivations.model import Derivation
from derive.errors import InputErrors, Missing
from derive.operands import ByDigest, Named, parse_operand
from derive.store.local import LocalStore
from derive.store.places import find_place
from support.stored import Made, fetched, image, tree


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def never(_: Named) -> Derivation:
    raise AssertionError("the project was asked")


def place(store: LocalStore, text: str, output: str = "out") -> Path:
    return find_place(store, parse_operand(text), output, never).path


def named(store: LocalStore, made: Made, output: str = "out") -> Path:
    return find_place(store, Named("it"), output, lambda _: made.derivation).path


def test_a_name_leads_to_what_it_gave_in_the_store(store: LocalStore) -> None:
    step = tree(store, b"text")
    assert named(store, step) == store.root / "trees" / step.digest.hex
    assert (store.root / "trees" / step.digest.hex / "usr" / "file").read_bytes() == b"text"


def test_an_image_leads_to_its_manifest_or_another_output(store: LocalStore) -> None:
    made = image(store, "one", fetched(store, b"x"))
    assert named(store, made) == store.blob_path(made.digest)
    assert named(store, made, "config").read_bytes() == b"config one"
    with pytest.raises(InputErrors) as caught:
        named(store, made, "debug")
    assert caught.value.problems()[0].detail == ("outputs   config, out",)


def test_a_digest_or_its_beginning_leads_to_a_blob_a_tree_or_what_a_derivation_gave(store: LocalStore) -> None:
    deb, step = fetched(store, b"x"), tree(store, b"text")
    assert place(store, deb.digest.hex[:12]) == store.blob_path(deb.digest)
    assert place(store, f"tree:{step.digest.hex[:12]}").name == step.digest.hex
    assert place(store, f"sha256:{step.digest.hex}").name == step.digest.hex
    assert place(store, f"drv:{step.derivation.id.hex[:12]}").name == step.digest.hex


def test_what_was_never_built_is_said_with_the_next_step(store: LocalStore, tmp_path: Path) -> None:
    with LocalStore(tmp_path / "other") as other:
        made = tree(other, b"elsewhere")
    with pytest.raises(Missing) as caught:
        named(store, made)
    assert (caught.value.message, caught.value.hint) == ("it is not built yet", "derive build it")


def test_what_is_gone_is_missing(store: LocalStore) -> None:
    step, deb = tree(store, b"text"), fetched(store, b"x")
    (store.root / "listings" / f"{step.digest.hex}.json").unlink()
    store.blob_path(deb.digest).unlink()
    with pytest.raises(Missing):
        named(store, step)
    with pytest.raises(Missing):
        named(store, deb)


@pytest.mark.parametrize("text", ["000000000000", "tree:000000000000", "drv:000000000000"])
def test_a_digest_that_nothing_has_is_refused(store: LocalStore, text: str) -> None:
    with pytest.raises(InputErrors, match="1 problem"):
        place(store, text)


def test_a_beginning_that_several_have_is_refused_with_all_of_them(store: LocalStore) -> None:
    name = "ab" * 6
    for rest in ("0", "1"):
        (store.root / "blobs" / "sha256" / (name + rest * 52)).write_bytes(b"")
    with pytest.raises(InputErrors) as caught:
        find_place(store, ByDigest(name), "out", never)
    assert len(caught.value.problems()[0].detail) == 2


def test_the_working_tree_is_no_output(store: LocalStore) -> None:
    with pytest.raises(InputErrors):
        place(store, ".")
