# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.why.pull import Blob, LayerRow, layer_rows, pull

A, B, C, D = (("sha256:" + letter * 64, size) for letter, size in (("a", 1), ("b", 2), ("c", 4), ("d", 8)))


def rows(before: list[Blob], after: list[Blob], **names: Blob) -> list[LayerRow]:
    return list(layer_rows(before, after, {blob[0]: name.rstrip("_") for name, blob in names.items()}))


def test_what_is_new_is_pulled_with_manifest_and_config_and_what_both_have_is_not() -> None:
    found = pull([A, B], [B, C, D], 100)
    assert found.layers == (C, D)
    assert (found.size, found.shared, found.shared_bytes) == (112, 1, 2)


def test_a_layer_that_stands_twice_is_pulled_once() -> None:
    assert pull([], [A, A], 0).layers == (A,)
    assert pull([A], [A, A], 0).shared == 1


def test_without_names_layers_are_paired_by_what_they_are_and_then_by_place() -> None:
    assert rows([A, B], [A, C]) == [LayerRow(0, A, A), LayerRow(1, B, C)]
    assert rows([A, B], [C, A, B]) == [LayerRow(0, None, C), LayerRow(1, A, A), LayerRow(2, B, B)]
    assert rows([A, B, C], [B]) == [LayerRow(0, B, B), LayerRow(0, A, None), LayerRow(2, C, None)]


def test_layers_of_one_name_are_a_pair_wherever_they_stand() -> None:
    assert rows([A, B], [C, D], one=A, one_=D, two=B, new=C) == [
        LayerRow(0, None, C, "new"),
        LayerRow(1, A, D, "one"),
        LayerRow(1, B, None, "two"),
    ]


def test_a_layer_with_a_name_is_no_pair_of_one_without() -> None:
    assert rows([A], [B], one=B) == [LayerRow(0, None, B, "one"), LayerRow(0, A, None)]
