# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.errors import InputErrors
from derive.fabric.catalogue import load_fabric
from derive.fabric.plan_measured import FILE, load_measured
from support.fabrics import launching


def problems(data: bytes) -> list[tuple[str, str, str | None]]:
    with pytest.raises(InputErrors) as caught:
        load_measured({FILE: data})
    return [(one.where.removeprefix(f"{FILE}: "), one.message, one.hint) for one in caught.value.problems()]


def changed(*changes: tuple[str, str]) -> bytes:
    text = launching()[FILE].decode()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text.encode()


def test_every_transport_that_moves_something_has_an_algorithm_and_no_other_has() -> None:
    transports = load_fabric(launching()).transports
    assert set(load_measured(launching()).transports) == {name for name, one in transports.items() if one.collectives}


def test_a_project_without_the_file_is_told_which() -> None:
    with pytest.raises(InputErrors) as caught:
        load_measured({})
    assert caught.value.problems()[0].where == FILE


def test_all_disagreements_are_said_at_once_with_the_nearest_name() -> None:
    data = changed(
        ('latency-of = "relay"', 'latency-of = "rely"'),
        ('series = "nccl-ring"', 'series = "nccl-rings"'),
        ('beyond = "nccl-ring"', 'beyond = "oneshot-ring4"'),
        ('mesh = "relay"\n', ""),
        (
            'limit-bytes = 2097152\nbeyond = "nccl-ring"\n\n[transports.rocenante-direct]',
            "limit-bytes = 2097152\n\n[transports.rocenante-direct]",
        ),
    )
    assert problems(data) == [
        ("algorithms.mesh", "this key is missing", None),
        ("series.oneshot.latency-of", "no series is named 'rely'", "did you mean relay?"),
        ("transports.nccl-ring.series", "no series is named 'nccl-rings'", "did you mean nccl-ring?"),
        ("transports.oneshot-ring4", "give limit-bytes and beyond together, or neither", None),
    ]


def test_a_limit_leads_to_a_transport_that_has_none() -> None:
    data = changed(('beyond = "nccl-ring"', 'beyond = "oneshot-ring4"'))
    assert problems(data) == [("transports.oneshot-direct.beyond", "'oneshot-ring4' has a limit of its own", None)]


def test_points_rise_and_two_tell_latency_from_rate() -> None:
    data = changed(
        ("  { bytes = 10240, time-ns = 16900 },\n", "  { bytes = 61440, time-ns = 16900 },\n"),
        ('latency-of = "relay"\n', ""),
        ("  { bytes = 491520, time-ns = 92900 },\n", ""),
    )
    assert problems(data) == [
        ("series.oneshot.points", "one point cannot tell latency from rate", "add latency-of"),
        ("series.relay.points", "the sizes do not rise from point to point", None),
    ]


def test_a_latency_is_taken_from_a_series_that_has_one_of_its_own() -> None:
    data = changed(
        ('source = "the deployment that this one follows; BF16, four Sparks"', 'source = "x"\nlatency-of = "oneshot"')
    )
    assert {where for where, _, _ in problems(data)} == {"series.oneshot.latency-of", "series.relay.latency-of"}


def test_a_series_is_of_an_algorithm_that_its_cabling_carries() -> None:
    data = changed(('cabling = "ring4"\nalgorithm = "relay"', 'cabling = "triangle"\nalgorithm = "relay"'))
    assert problems(data) == [("series.relay.algorithm", "a triangle does not carry relay", None)]


def test_wrong_forms_are_said_with_their_keys() -> None:
    data = changed(("bytes-per-second = 25000000000", "bytes-per-second = 0"), ("bytes = 10240,", "bytes = 10241,"))
    assert [where for where, _, _ in problems(data)] == ["links.cable.bytes-per-second", "series.relay.points[0].bytes"]
