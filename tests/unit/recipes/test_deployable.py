# SPDX-License-Identifier: Apache-2.0
"""What a shape needs, and whether its image has it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from derive.recipes.deployable import Missing, clashes, image_capabilities, verdict
from support.recipes import SMALL, edited, launching, resolved
from support.shapes_of_fabric import fabric


def needs(text: str = SMALL, shape: str | None = None) -> dict[str, str]:
    return {need.capability: need.because for need in resolved(text, shape).needs}


def test_needs_follow_from_transport_kernels_drafter_and_guard() -> None:
    assert needs() == {
        "dspark": "arguments.speculative-config.method = dspark",
        "linear-b12x": "fabric/transports.toml: kernel-backends.b12x.needs",
        "memory-guard": "guard",
        "moe-b12x": "fabric/transports.toml: kernel-backends.b12x.needs",
        "nccl": "fabric/transports.toml: shared.needs",
    }


@pytest.mark.parametrize(
    ("old", "new", "capability"),
    [
        ("[environment]", '[memory]\nengram = "disk"\n[environment]', "engram-disk"),
        ("[environment]", '[memory]\nengram = "memory"\n[environment]', "engram-memory"),
        ('default-shape = "ring"', 'default-shape = "triangle"', "tp3-padding"),
        ('tuning = "tp4"', 'tuning = "tp4-switchless"', "nccl-switchless"),
        ('tuning = "tp4"', 'tuning = "tp4"\nkernel-backend = "tilelang"', "tilelang-backend"),
        ('tuning = "tp4"', 'tuning = "tp4"\nneeds = ["one-prefill"]', "one-prefill"),
        ('method = "dspark"', 'method = "dspark", enable_adaptive_verification = true', "dspark-adaptive"),
        ("max-num-seqs = 4", "max-num-seqs = 4\nenable-prefix-caching = true", "prefix-cache"),
        ("max-num-seqs = 4", "max-num-seqs = 4\nasync-scheduling = true", "async-scheduling"),
        ("max-num-seqs = 4", 'max-num-seqs = 4\nhf-overrides = { head_dtype = "float32" }', "head-dtype"),
        ('transport = "nccl-ring"', 'transport = "oneshot-ring4"', "oneshot-ring4"),
    ],
)
def test_what_a_setting_needs_is_needed_because_of_it(old: str, new: str, capability: str) -> None:
    text = edited((old, new))
    if "oneshot" in new:
        text = text.replace("triangle", "other").replace('cabling = "other"', 'cabling = "ring4"')
    assert capability in needs(text)
    assert capability not in needs()


def test_a_setting_that_is_off_needs_nothing() -> None:
    off = edited(('method = "dspark"', 'method = "dspark", enable_adaptive_verification = false'))
    assert needs(off) == needs()


def test_a_shape_whose_needs_the_image_has_is_deployable() -> None:
    one = resolved()
    assert verdict(one, {need.capability for need in one.needs}) == ()


def test_what_the_image_lacks_is_a_sentence_each() -> None:
    text = edited(('tuning = "tp4"', 'tuning = "tp4"\nneeds = ["one-prefill"]\nmemory = { engram = "disk" }'))
    capabilities, problems = image_capabilities(launching(), "ds41f")
    assert problems == []
    assert [missing.text for missing in verdict(resolved(text), capabilities)] == [
        "not deployable: needs engram-disk (memory.engram = disk)",
        "not deployable: needs one-prefill (shapes.ring.needs)",
    ]


def test_a_need_that_is_almost_a_capability_of_the_image_is_told_with_it() -> None:
    text = edited(('transport = "nccl-ring"', 'transport = "nccl-ring"\nneeds = ["ofline", "one-prefill"]'))
    texts = {one.capability: one.text for one in verdict(resolved(text), frozenset({"offline", "rdma"}))}
    assert texts["ofline"] == "not deployable: needs ofline (needs): did you mean offline?"
    assert texts["one-prefill"] == "not deployable: needs one-prefill (needs)"


def test_a_planned_transport_is_not_deployable_whatever_the_image_has() -> None:
    one = resolved(edited(('transport = "nccl-ring"', 'transport = "rocenante-mesh4"')))
    (missing,) = verdict(one, {need.capability for need in one.needs})
    assert missing.capability is None
    assert missing.text.startswith("not deployable: planned: transport rocenante-mesh4: ")


def test_capabilities_are_the_names_that_the_image_declares() -> None:
    declared = b'[capabilities]\na = { patch = "x", doc = "y" }\nb = {}'
    assert image_capabilities({"images/i.toml": declared}, "i") == (frozenset({"a", "b"}), [])
    assert image_capabilities({"images/i.toml": b""}, "i") == (frozenset(), [])
    assert Missing(capability="a", because="b").text == "not deployable: needs a (b)"


@pytest.mark.parametrize("text", [b"capabilities = 1", b"[capabilities]\na = 1", b"[[["])
def test_an_image_whose_capabilities_cannot_be_read_is_told(text: bytes) -> None:
    names, problems = image_capabilities({"images/i.toml": text}, "i")
    assert names == frozenset()
    assert problems
    assert all(one.where.startswith("images/i.toml") for one in problems)


def test_an_image_without_a_file_is_told() -> None:
    _, (problem,) = image_capabilities({}, "i")
    assert (problem.where, problem.message) == ("images/i.toml", "no such file")


@pytest.mark.parametrize(
    ("transport", "capability", "owner"),
    [
        ("nccl-ring", "oneshot-direct", "oneshot-direct"),
        ("nccl-ring", "rocenante-ring4", "rocenante-ring4"),
        ("oneshot-ring4", "rocenante-ring4", "rocenante-ring4"),
        ("rocenante-ring4", "oneshot-direct", "oneshot-direct"),
        ("rocenante-mesh4", "oneshot-ring4", "oneshot-ring4"),
    ],
)
def test_an_image_with_the_collectives_of_another_engine_does_not_go_with_a_transport(
    transport: str, capability: str, owner: str
) -> None:
    one = replace(resolved(), transport=transport)
    (clash,) = clashes(one, {"nccl", capability}, fabric())
    assert clash.text == (
        f"not deployable: the image has {capability}, which is for {owner}, and the shape has {transport}"
    )


@pytest.mark.parametrize(
    ("transport", "capabilities"),
    [
        ("nccl-ring", {"nccl", "nccl-switchless"}),
        ("oneshot-ring4", {"nccl", "oneshot-ring4", "oneshot-direct"}),
        ("rocenante-ring4", {"nccl", "rocenante-direct", "rocenante-ring4", "rocenante-mesh4"}),
        ("none", {"oneshot-ring4", "rocenante-ring4"}),
    ],
)
def test_an_image_goes_with_transports_of_its_own_engine_and_with_shapes_that_call_none(
    transport: str, capabilities: set[str]
) -> None:
    assert clashes(replace(resolved(), transport=transport), capabilities, fabric()) == ()
