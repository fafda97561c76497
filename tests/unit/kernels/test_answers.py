# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from derive.canonical import Digest
from derive.derivations.model import FlatOutput, TreeOutput
from derive.errors import Corrupt, Missing
from derive.kernels.answers import read_facts, read_files
from derive.store.memory import MemoryStore
from derive.trees.pack import NewFile, add_members
from support.archives import said
from support.kernel_facts import LAUNCH, RESOURCES


def output(store: MemoryStore, **files: bytes) -> TreeOutput:
    members = [
        (name.replace("_", ".").encode(), NewFile(executable=False, chunks=[data])) for name, data in files.items()
    ]
    return TreeOutput(store.add_listing(add_members(store, members)))


def test_facts_are_read_from_the_output_of_a_unit() -> None:
    store = MemoryStore()
    made = output(store, resources_json=json.dumps(RESOURCES).encode(), launch_json=json.dumps(LAUNCH).encode())
    found = read_facts(store, made, "a/unit")
    assert found.resources.registers == 168
    assert found.launch.entry == "dense_kernel"


def test_a_file_that_is_not_there_names_the_unit_and_what_makes_it_again() -> None:
    store = MemoryStore()
    with pytest.raises(Missing) as caught:
        read_facts(store, output(store, launch_json=b"{}"), "a/unit")
    assert "the output of a/unit has no resources.json" in said(caught.value)
    assert "derive kernels build a/unit" in said(caught.value)


def test_a_single_file_is_no_output_of_a_unit() -> None:
    with pytest.raises(Missing, match=r"has no kernel\.cu"):
        read_files(MemoryStore(), FlatOutput(Digest("0" * 64)), ["kernel.cu"], "a/unit")


def test_facts_that_are_none_are_damage() -> None:
    store = MemoryStore()
    with pytest.raises(Corrupt):
        read_facts(store, output(store, launch_json=b"{}", resources_json=b"{}"), "a/unit")
