# SPDX-License-Identifier: Apache-2.0
"""A checkpoint's own shapes in place of the table's: indexes, headers, names, and what does not agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.memory.checkpoint import (
    Entry,
    agreement,
    header_bytes,
    parse_header,
    parse_index,
    unmatched,
    with_checkpoint,
)
from derive.memory.facts import Tensor
from derive.memory.ledger import ledger
from derive.memory.shards import INDEX, read_checkpoint
from support.ledgers import facts, shape, shard

ENTRIES = {
    "layers.0.attn.wq_a.weight": ("F8_E4M3", [1280, 5120]),
    "layers.0.attn.wq_a.scale": ("F8_E8M0", [40, 160]),
    "layers.1.attn.wq_a.weight": ("F8_E4M3", [1280, 5120]),
    "layers.0.ffn.experts.17.w1.weight": ("I8", [2304, 2560]),
    "layers.0.ffn.experts.17.w1.scale": ("F8_E8M0", [2304, 160]),
    "layers.0.ffn.gate.bias_vl": ("F32", [384]),
    "layers.1.engram.embed.weight": ("F8_E4M3", [384000000, 256]),
    "layers.1.engram.embed.scale": ("F8_E8M0", [384000000, 8]),
    "vision.blocks.0.attn.qkv.weight": ("BF16", [3072, 1024]),
    "surprise.weight": ("BF16", [2, 3]),
}


def entries(given: Mapping[str, tuple[str, list[int]]] = ENTRIES) -> dict[str, Entry]:
    return parse_header(shard(given)[8:], "a.safetensors")


def read(name: str) -> Tensor:
    return next(one for one in with_checkpoint(facts(), entries()).facts.checkpoint if one.name == name)


def test_shapes_are_those_of_the_headers_and_splits_those_of_the_table() -> None:
    assert (read("wq-a").count, read("wq-a").rows, read("wq-a").columns) == (2, 1280, 5120)
    expert = read("w1-w3")
    assert (expert.count, expert.rows, expert.columns, expert.split, expert.unit) == (1, 2304, 5120, "rows", 32)


def test_scales_count_with_their_weights() -> None:
    names = {one.name for one in with_checkpoint(facts(), entries()).facts.checkpoint}
    assert names == {"wq-a", "w1-w3", "router-bias", "vision", "names that the table does not know"}


def test_names_that_no_pattern_matches_are_told_and_counted() -> None:
    found = with_checkpoint(facts(), entries())
    assert found.unknown == ("surprise.weight",)
    assert found.facts.checkpoint[-1].bytes == 12


def test_tables_of_engram_are_measured_by_their_headers() -> None:
    engram = with_checkpoint(facts(), entries()).facts.engram
    assert engram is not None
    assert (engram.tables, engram.rows, engram.row_bytes) == (1, 384000000, 264)


def test_a_ledger_of_a_checkpoint_says_that_its_shapes_are_its_own() -> None:
    found = ledger(shape(), with_checkpoint(facts(), entries()).facts)
    assert {row.source for row in found.rows if row.item in ("attention", "experts")} == {"shapes of the checkpoint"}
    assert not any("table" in note for note in found.notes)


def test_an_axis_that_the_tables_unit_does_not_divide_is_split_finer() -> None:
    odd = entries({"layers.0.attn.wo_a.weight": ("F8_E4M3", [1536, 4096])})
    assert with_checkpoint(facts(), odd).facts.checkpoint[0].unit == 512


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("layers.39.ffn.experts.383.w2.scale", True),
        ("layers.20.attn.compressor.wkv.weight", True),
        ("mtp.2.ffn.experts.5.w3.weight", True),
        ("vision.blocks.3.mlp.w1.weight", True),
        ("layers.3.attn.wq_a.extra.weight", False),
        ("embed.weight", True),
        ("head.weight", True),
        ("heads.weight", False),
    ],
)
def test_a_name_is_matched_whole(name: str, *, known: bool) -> None:
    assert (unmatched(facts(), [name]) == ()) is known


def test_an_index_alone_is_held_against_the_table() -> None:
    total = 510276477849
    index = parse_index(json.dumps({"metadata": {"total_size": total}, "weight_map": {"x.weight": "a"}}).encode(), "i")
    first, second, third = agreement(facts(), index, None)
    assert "per thousand" in first
    assert second == "checkpoint: 1 of 1 names are not in the table, as x.weight"
    assert third == "checkpoint: its files are not all beside the index, so shapes are the table's"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "not an index of a checkpoint"),
        (b'{"weight_map": {"a": 1}}', "not an index of a checkpoint"),
    ],
)
def test_what_is_no_index_is_told(data: bytes, message: str) -> None:
    with pytest.raises(InputErrors) as caught:
        parse_index(data, "index.json")
    assert caught.value.problems()[0].message.startswith(message)
    assert caught.value.problems()[0].where == "index.json"


@pytest.mark.parametrize("prefix", [b"", b"\0" * 8, b"\xff" * 8])
def test_a_file_that_announces_no_header_is_told(prefix: bytes) -> None:
    with pytest.raises(InputErrors):
        header_bytes(prefix, "a.safetensors")


def test_a_header_without_shapes_is_told() -> None:
    with pytest.raises(InputErrors) as caught:
        parse_header(b'{"a": {"dtype": "BF16"}}', "a.safetensors")
    assert caught.value.problems()[0].message == "not a safetensors header: no shape for a"


def test_headers_beside_an_index_are_read_and_the_metadata_is_no_tensor(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(shard({"embed.weight": ("BF16", [4, 2])}) + b"tensors")
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"embed.weight": "a.safetensors"}}))
    for place in (tmp_path, tmp_path / INDEX):
        found = read_checkpoint(place)
        assert found.entries == {"embed.weight": Entry(dtype="BF16", shape=(4, 2))}
        assert found.index is not None


def test_files_that_an_index_names_outside_its_folder_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(shard({}))
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / INDEX).write_text(json.dumps({"weight_map": {"embed.weight": "../a.safetensors"}}))
    assert read_checkpoint(inner).entries is None


def test_a_folder_of_files_needs_no_index(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(shard({"head.weight": ("BF16", [4, 2])}))
    assert set(read_checkpoint(tmp_path).entries or {}) == {"head.weight"}


def test_a_folder_without_either_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        read_checkpoint(tmp_path)
    assert caught.value.problems()[0].where == str(tmp_path)
