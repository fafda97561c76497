# SPDX-License-Identifier: Apache-2.0
"""Historical releases: those in the repository are whole and agree with what memory is predicted from; comparisons."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from derive.canonical import Json
from derive.records.chain import Entry, read_chain
from derive.records.folder import files_below
from derive.records.model import Record
from derive.report import Compared, compare_historical
from derive.report.history import KIND, cells, compare, stated, stated_by_documents, words
from derive.report.values import items, table
from support.reported import release

ROOT = Path(__file__).parents[3]
MEASURED = {"r6d-tp4": ("r6d", "tp4-ring"), "r6-tp3": ("r6", "tp3-triangle"), "r5k-tp3-4k": ("r5k", "tp3-triangle-4k")}
LINE = "r3 r5c r5g r5h r5k r5o r5p r6 r6b r6c r6d r6h r6k r6n r6s r6u r6v r6x".split()  # noqa: SIM905 - a list of words


def history() -> dict[str, Entry]:
    chain = read_chain(files_below(ROOT))
    return {one.record.subject: one for one in chain.entries if one.record.kind == KIND}


def body(name: str) -> Record:
    return history()[name].record


def figure(of: str, **wanted: Json) -> list[Json]:
    figures = [table(one) for one in items(body(of).body["figures"])]
    return [one for one in figures if all(one.get(key) == value for key, value in wanted.items())]


def historical(**more: Json) -> Record:
    empty: dict[str, Json] = {"identities": {}, "shapes": {}, "figures": [], "kernel_backend": None}
    return Record(kind=KIND, subject="x", previous=None, body={**empty, **more})


def source(**values: Json) -> dict[str, Json]:
    return {"sources": {"tool": dict(values)}}


def test_the_line_of_the_former_deployment_opens_the_chain_in_order() -> None:
    assert list(history()) == LINE
    assert [one.number for one in history().values()] == list(range(1, len(LINE) + 1))


def test_none_is_derivable_and_each_says_why_and_where_it_is_known_from() -> None:
    for name, entry in history().items():
        assert entry.record.body["derivable"] is False, name
        assert entry.record.body["why_not"], name
        assert entry.record.body["known_from"] in (["its repository up to r6d"], ["its README"]), name
        assert entry.record.body["deployment"] == "spark-ds41f", name


def test_every_figure_says_its_source_and_has_a_number() -> None:
    for name, entry in history().items():
        for item in items(entry.record.body["figures"]):
            one = table(item)
            assert one["source"] in ("deployment", "readme", "derived"), (name, one)
            assert any(key.partition("_")[0] in ("value", "low") for key in one), (name, one)


@pytest.mark.parametrize("measured", MEASURED)
def test_shapes_agree_with_what_memory_is_predicted_from(measured: str) -> None:
    name, shape = MEASURED[measured]
    known = tomllib.loads((ROOT / "recipes/ds41f/memory.toml").read_text())["measured"][measured]
    said = table(table(body(name).body["shapes"])[shape])
    pages = {"4KiB": 4096, "64KiB": 65536}
    assert said["kv_tokens"] == known["kv-tokens"]
    assert said["kv_cache_bytes"] == known["kv-bytes"]
    assert said["max_model_len_tokens"] == known["max-model-len"]
    assert said["max_num_seqs"] == known["max-num-seqs"]
    assert said["max_num_batched_tokens"] == known["max-num-batched-tokens"]
    assert said["tensor_parallel"] == known["ranks"]
    assert said["capture_sizes"] == known["capture-sizes"]
    assert table(said["kernel"])["page_size_bytes"] == pages[known["page-size"]]


@pytest.mark.parametrize(
    ("name", "wanted", "gib", "key"),
    [
        ("r6d", {"name": "weights of a rank"}, "73.6", "weights"),
        ("r6", {"name": "weights of a rank"}, "97.5", "weights"),
        ("r6d", {"name": "graph capture"}, "1.88", "graphs"),
        ("r6d", {"name": "least MemAvailable", "case": None}, "20.11", "available"),
        ("r6", {"name": "least MemAvailable"}, "5.99", "available"),
    ],
)
def test_memory_figures_agree_with_what_memory_is_predicted_from(
    name: str, wanted: dict[str, Json], gib: str, key: str
) -> None:
    known = tomllib.loads((ROOT / "recipes/ds41f/memory.toml").read_text())["measured"]
    measured = next(label for label, (release_name, _) in MEASURED.items() if release_name == name)
    assert known[measured][key] == f"{gib}GiB"
    assert [table(one)["value_gib"] for one in figure(name, **wanted)] == [{"decimal": gib}]


def test_threshold_of_long_prefills_follows_the_budget_where_the_scheduler_checks_it() -> None:
    shapes = table(body("r6d").body["shapes"])
    for name, ranks in (("tp4-ring", 4), ("tp3-triangle", 3)):
        shape = table(shapes[name])
        budget, requests = shape["max_num_batched_tokens"], shape["max_num_seqs"]
        assert isinstance(budget, int)
        assert isinstance(requests, int)
        assert shape["long_prefill_threshold_tokens"] == budget - requests * 6
        assert shape["tensor_parallel"] == ranks


@pytest.mark.parametrize(
    ("first", "second", "relation"),
    [
        ({"sha1": "a" * 40}, {"sha1": "a" * 40}, "same"),
        ({"sha1": "a" * 40}, {"sha1": "b" * 40}, "differs"),
        ({"begins": "a" * 9}, {"sha1": "a" * 40}, "same"),
        ({"sha1": "a" * 40}, {"begins": "a" * 9}, "same"),
        ({"begins": "b" * 9}, {"sha1": "a" * 40}, "differs"),
        ({"begins": "aa"}, {"sha1": "a" * 40}, "differs"),
        (None, {"sha1": "a" * 40}, "only second"),
        ({"sha1": "a" * 40}, None, "only first"),
    ],
)
def test_an_identity_known_by_its_first_digits_agrees_with_the_whole(first: Json, second: Json, relation: str) -> None:
    rows = compare_historical(historical(identities=source(tree=first)), historical(identities=source(tree=second)))
    assert [row.relation for row in rows] == [relation]


def test_parts_come_in_order_and_what_neither_states_is_no_row() -> None:
    figures: list[Json] = [
        {"name": "step", "case": "prose", "shape": "ring", "streams": "1", "value_ms": {"decimal": "31.59"}}
    ]
    one = historical(
        identities=source(tree={"sha1": "a" * 40}),
        shapes={"ring": {"nodes": 4, "note": "n", "source": "s"}},
        figures=figures,
    )
    assert compare_historical(one, historical()) == (
        Compared(part="identity", what="tool tree", first="a" * 40, second=None, relation="only first"),
        Compared(part="shape", what="ring: nodes", first="4", second=None, relation="only first"),
        Compared(
            part="figure", what="step, prose, ring, 1 stream", first="31.59 ms", second=None, relation="only first"
        ),
    )


def test_comparing_a_release_with_itself_finds_no_difference() -> None:
    rows = compare_historical(body("r6d"), body("r6d"))
    assert rows
    assert {row.relation for row in rows} == {"same"}


def test_comparing_the_other_way_round_swaps_the_sides() -> None:
    swapped = {"only first": "only second", "only second": "only first"}
    there, back = compare_historical(body("r6"), body("r6d")), compare_historical(body("r6d"), body("r6"))
    assert [(row.what, row.second, row.first, swapped.get(row.relation, row.relation)) for row in there] == [
        (row.what, row.first, row.second, row.relation) for row in back
    ]


def test_the_words_say_that_nothing_of_it_can_be_derived() -> None:
    rows = compare_historical(body("r6"), body("r6d"))
    told = words("r6", "r6d", rows, ("r6", "r6d"))
    assert told[0].startswith("r6 and r6d cannot be derived")
    assert "known of both: 18, of which 9 differ" in told[1]


def test_what_is_known_of_one_alone_is_shown_only_with_all_also_where_nothing_is_of_both() -> None:
    rows = compare_historical(body("r6"), body("r6d"))
    assert {cell[3] for cell in cells(rows, everything=False)} == {"same", "differs"}
    assert len(cells(rows, everything=True)) == len(rows)
    alone = compare_historical(body("r6h"), body("r6x"))
    assert cells(alone, everything=False) == []
    assert len(cells(alone, everything=True)) == len(alone) > 0


def test_a_release_that_can_be_derived_is_compared_by_its_documents() -> None:
    ours, facts = release("demo")
    found = compare(stated(body("r6d")), stated_by_documents(ours.document(), facts.document()))
    assert ("identity", "image digest for linux/arm64", "only second") in [
        (one.part, one.what, one.relation) for one in found
    ]
