# SPDX-License-Identifier: Apache-2.0
"""Buffers that are counted from shapes and settings."""

from __future__ import annotations

from dataclasses import replace

from derive.memory.estimates import activation_bytes, graph_bytes, nccl_bytes, page_table_bytes
from support.ledgers import facts

MIB = 2**20
RING = facts().measured["r6d-tp4"].conditions


def test_a_ring_has_two_connections_for_each_channel_and_communicator() -> None:
    assert nccl_bytes(RING.environment) == 2 * 4 * 2 * (4 * MIB + MIB // 2 + MIB // 4)


def test_without_a_named_algorithm_there_are_the_trees_connections_too() -> None:
    ring = {"NCCL_ALGO": "Ring", "NCCL_MAX_NCHANNELS": "8"}
    assert nccl_bytes({"NCCL_MAX_NCHANNELS": "8"}) == 3 * nccl_bytes(ring)


def test_what_the_environment_does_not_say_is_as_the_library_has_it() -> None:
    assert nccl_bytes({"NCCL_ALGO": "Ring"}) == 2 * 8 * 2 * (4 * MIB + MIB // 2 + 4915200)


def test_page_tables_of_small_pages_are_sixteen_times_as_large() -> None:
    assert page_table_bytes(2**36, 4096) == 16 * page_table_bytes(2**36, 65536) == 2 * 8 * 2**24


def test_activations_grow_with_the_rows_of_a_step() -> None:
    sizes = facts().activations
    half = activation_bytes(sizes, replace(RING, batched_tokens=4096))
    assert activation_bytes(sizes, RING) == 2 * half


def test_graphs_take_what_as_many_took() -> None:
    assert graph_bytes(2000, 14, 20) == 1400
    assert graph_bytes(2000, 20, 20) == 2000
