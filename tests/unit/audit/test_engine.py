# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from derive.audit.engine import _kept as kept
from derive.audit.engine import archive_named, same_outputs, source_files
from derive.canonical import sha256
from derive.capsule.model import ROOT, CapsuleDocument, Use, parts_of
from derive.capsule.read import open_capsule
from derive.capsule.whole import whole_of
from derive.capsule.write import write_capsule
from derive.derivations.model import FlatOutput, TreeOutput
from derive.engine.model import source_of
from derive.engine.source import engine_files
from derive.errors import UpstreamGone
from derive.store.local import LocalStore
from derive.trees.listing import File, Listing
from derive.trees.nar import serialise


def test_a_root_that_a_capsule_keeps_is_taken_by_its_hash(tmp_path: Path) -> None:
    data = b"#!/bin/sh\n"
    listing = Listing.of({b"usr/bin/python3.13": File(True, len(data), sha256(data))})
    nar = b"".join(serialise(listing, lambda _path, _file: (data,)))
    document = CapsuleDocument(
        name="one",
        release=sha256(b"release"),
        platforms=("linux/amd64",),
        engine=("linux/amd64",),
        parts=parts_of([(Use(kind=ROOT, name="linux/amd64"), sha256(nar), len(nar))]),
        trees={sha256(nar): None},
    )
    write_capsule(whole_of(document, lambda _: iter((nar,))), tmp_path / "c", add=False, jobs=1, say=lambda _: None)
    capsule = open_capsule(tmp_path / "c")
    with LocalStore(tmp_path / "store") as store:
        output = kept(capsule, capsule.releases[0], "linux/amd64", store)
        assert output == TreeOutput(sha256(nar))
        assert (store.folder(output.digest) / "usr/bin/python3.13").read_bytes() == data
        assert kept(capsule, capsule.releases[0], "linux/arm64", store) is None


def test_the_source_of_an_engine_is_its_own_or_nowhere(tmp_path: Path) -> None:
    own = engine_files()
    with LocalStore(tmp_path / "store") as store:
        assert source_files(source_of(own).nar, None, store) == own
        with pytest.raises(UpstreamGone):
            source_files(sha256(b"another"), None, store)


def test_a_capsule_is_the_first_archive_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DERIVE_ARCHIVES", "/kept")
    with archive_named("/capsule"):
        assert os.environ["DERIVE_ARCHIVES"] == "/capsule /kept"
    assert os.environ["DERIVE_ARCHIVES"] == "/kept"


def test_outputs_that_differ_are_named() -> None:
    one, two = FlatOutput(sha256(b"1")), FlatOutput(sha256(b"2"))
    assert same_outputs({"a": one, "b": one}, {"a": one, "b": two, "c": one}) == ("b", "c")
