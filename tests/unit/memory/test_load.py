# SPDX-License-Identifier: Apache-2.0
"""Reading a file of facts: what it must hold, and everything that is wrong at once."""

from __future__ import annotations

import pytest

from derive.errors import InputErrors, Problem
from derive.memory.load import load_facts
from support.ledgers import DATA, FILE, facts


def problems(*changes: tuple[str, str], data: bytes = DATA) -> list[Problem]:
    text = data.decode()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
    with pytest.raises(InputErrors) as caught:
        load_facts(text.encode(), FILE)
    return list(caught.value.problems())


def test_the_facts_of_the_project_are_read() -> None:
    found = facts()
    assert found.model == "DeepSeek V4.1 Flash"
    assert list(found.measured) == ["r6d-tp4", "r6-tp3", "r5k-tp3-4k"]
    assert len(found.tensors) > 30


def test_every_tensor_of_a_layer_has_a_pattern_of_its_names() -> None:
    assert [tensor.name for tensor in facts().tensors if tensor.match is None] == []


@pytest.mark.parametrize(
    ("before", "after", "place", "message"),
    [
        ("format = 1", "format = 2", "format", "is to be 1"),
        ('model = "DeepSeek V4.1 Flash"', "model = 4", "model", "is to be text"),
        ('form = "mxfp8", match = "layers.*.attn.wq_a"', 'form = "int8"', "tensors.wq-a.form", "is to be fp32 or bf16"),
        ("shape = [1280, 5120]", "shape = [1280]", "tensors.wq-a.shape", "is to be two integers, rows and columns"),
        ("shape = [1280, 5120]", "shape = 7", "tensors.wq-a.shape", "is to be a list of integers above 0"),
        ("unit = 4096", "unit = 5000", "tensors.wq-b.unit", "does not divide the axis that is split"),
        ('bytes = "0.9GiB"', "bytes = 3", "tensors.vision.bytes", "is to be a size as text, as in 3.5GiB"),
        ("heads = 24", "heads = 0", "engram.heads", "is to be an integer of at least 1"),
        ("{ ratio = 2, layers = 3 }", "{ ratio = 3, layers = 3 }", "cache.sources", "a ratio of 3 does not divide"),
        ("{ ratio = 2, layers = 3 }", "{ ratio = 2, layer = 3 }", "cache.sources[0].layer", "unknown key"),
        ('kv = "r6d-tp4"', 'kv = "r7"', "fit.kv", "names no measured deployment"),
        ('host = "r6d-tp4"', 'host = "r5k-tp3-4k"', "fit.host", "names a deployment without available"),
        ('["19.4GiB", "20.11GiB"]', '["19.4GiB"]', "measured.r6d-tp4.available-range", "is to be two sizes"),
        ("another-engine = true", "another-engine = 1", "measured.r5k-tp3-4k.another-engine", "is to be true or false"),
        ("formats = { head =", "formats = { heads =", "measured.r6d-tp4.formats", "no such tensor: 'heads'"),
        ("ranks = 4", "rank = 4", "measured.r6d-tp4.rank", "unknown key"),
    ],
)
def test_a_slip_is_told_where_it_is(before: str, after: str, place: str, message: str) -> None:
    found = problems((before, after))
    assert any(one.where == f"{FILE}: {place}" and one.message.startswith(message) for one in found), found


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = problems(
        ("hidden = 5120", "hidden = 0.5"), ("window = 128", 'window = "x"'), ("rows = 384000000", "rows = true")
    )
    assert [one.where for one in found] == [
        f"{FILE}: activations.hidden",
        f"{FILE}: cache.window",
        f"{FILE}: engram.rows",
    ]
    assert found[0].detail == ("got       0.5",)


def test_what_is_no_toml_is_told() -> None:
    assert problems(data=b"= 1")[0].message.startswith("not valid TOML")


def test_an_empty_file_lacks_everything() -> None:
    assert {one.message for one in problems(data=b"")} == {"this key is missing"}
