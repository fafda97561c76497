# SPDX-License-Identifier: Apache-2.0
"""A new profile's text: what was given stands in it, whatever it holds."""

from __future__ import annotations

import tomllib
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.fabric.tuning_rows import created_text
from support.shapes_of_fabric import fabric

PRINTABLE = st.text(st.sampled_from(["1", " ", "\\", '"', "#", "é", "u", "'", "="]), max_size=8)
SETTINGS = sorted(name for name, one in fabric().tunable.items() if one.engine is None)


def test_what_a_profile_is_for_says_what_it_was_made_from_and_what_differs() -> None:
    values = {"NCCL_BUFFSIZE": "1048576", "NCCL_THREAD_THRESHOLDS": ""}
    read = tomllib.loads(created_text(fabric().tunings["tp4"], values, fabric()))
    assert read["doc"] == "tp4, with NCCL_BUFFSIZE=1048576, without NCCL_THREAD_THRESHOLDS"


@given(st.dictionaries(st.sampled_from(SETTINGS), PRINTABLE, max_size=3), PRINTABLE | st.just("two\nlines"))
@settings(max_examples=60, deadline=None)
def test_a_profile_reads_back_as_what_was_given(values: dict[str, str], doc: str) -> None:
    base = replace(fabric().tunings["tp4"], doc=doc)
    read = tomllib.loads(created_text(base, values, fabric()))
    assert read["nodes"] == base.nodes
    assert all(value in read["doc"] for value in values.values()) if values else read["doc"] == doc
    left = {name: value for name, value in base.nccl.items() if name not in values}
    assert read["nccl"] == left | {name: value for name, value in values.items() if value}
