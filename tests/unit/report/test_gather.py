# SPDX-License-Identifier: Apache-2.0
"""What a report says of records: releases and their states, what moved, sizes, scores, waivers, the chain."""

from __future__ import annotations

import json

import pytest

from derive.canonical import Json
from derive.records.model import Record, read_record
from derive.report.gather import gather
from derive.report.model import Account, document
from support.reported import DAY, START, Records, everything, release, word


def account() -> Account:
    return gather(everything())


def test_states_follow_from_later_records() -> None:
    states = {one.name: (one.state, one.promoted) for one in account().releases}
    assert states == {
        "e1": ("historical", ()),
        "e2": ("historical", ()),
        "e3": ("historical", ()),
        "demo-1": ("retired", ()),
        "demo-2": ("promoted", ("ring",)),
        "demo-3": ("candidate", ()),
    }


def test_retiring_one_shape_leaves_the_others_promoted() -> None:
    records, (found, facts) = Records(), release("demo")
    records.candidate("demo-1", found, facts, 0, None, "first")
    for shape in ("ring", "triangle"):
        records.promoted("demo-1", found, shape, 1, [])
    records.append(
        "retired", "demo-1", {"release": "demo-1", "shape": "ring", "by": "G", "why": "w", "retired_s": START}
    )
    (one,) = gather(records.files).releases
    assert (one.state, one.promoted) == ("promoted", ("triangle",))


def test_a_shape_promoted_again_after_it_was_retired_stands() -> None:
    records, (found, facts) = Records(), release("demo")
    records.candidate("demo-1", found, facts, 0, None, "first")
    records.append("retired", "demo-1", {"release": "demo-1", "shape": None, "by": "G", "why": "w", "retired_s": START})
    records.promoted("demo-1", found, "ring", 2, [])
    assert gather(records.files).releases[0].promoted == ("ring",)


def test_a_shape_that_is_promoted_twice_counts_once() -> None:
    records, (found, facts) = Records(), release("demo")
    records.candidate("demo-1", found, facts, 0, None, "first")
    for day, shape in enumerate(("triangle", "ring", "triangle")):
        records.promoted("demo-1", found, shape, day, [])
    account = gather(records.files)
    assert account.releases[0].promoted == ("ring", "triangle")
    assert [(one.shape, one.standing, one.again) for one in account.promotions] == [
        ("triangle", False, True),
        ("ring", True, False),
        ("triangle", True, False),
    ]


def test_each_line_has_its_own_lane_and_names_what_came_before() -> None:
    assert [(one.name, one.lane, one.previous) for one in account().releases] == [
        ("e1", "elder", None),
        ("e2", "elder", "e1"),
        ("e3", "elder", "e2"),
        ("demo-1", "demo", None),
        ("demo-2", "demo", "demo-1"),
        ("demo-3", "demo", "demo-2"),
    ]


def test_what_moved_between_two_releases_is_read_from_their_documents() -> None:
    step = next(one for one in account().changes if one.second == "demo-2")
    rows = [(row.part, row.what) for row in step.rows]
    assert rows == [
        ("image", "linux/amd64"),
        ("image", "linux/amd64: layers, 2 of them new"),
        ("image", "linux/arm64"),
        ("image", "linux/arm64: layers, 2 of them new"),
        ("lock", "lock/wheels.lock.json"),
        ("content", "patches/tool/0001-first.patch"),
        ("shape", "ring"),
    ]


def test_an_upstream_that_moved_says_its_commit_and_which_patches_came_and_went() -> None:
    records = Records()
    for number, (commit, series) in enumerate(
        (("a" * 40, ["1.patch", "2.patch"]), ("b" * 40, ["2.patch", "3.patch"])), 1
    ):
        found, facts = release("demo", moved=str(number))
        said = dict(facts.document())
        said["upstreams"] = [
            {"name": "tool", "commit": commit, "tree": "", "series": series, "head": str(word(commit)), "patched": None}
        ]
        records.candidate(f"demo-{number}", found, facts, number, None if number == 1 else "demo-1", "why")
        records.files[f"releases/demo-{number}/facts.json"] = json.dumps(said).encode()
    rows = {
        row.what: (row.before, row.after) for row in gather(records.files).changes[0].rows if row.part == "upstream"
    }
    assert rows["tool commit"] == ("a" * 12, "b" * 12)
    assert "tool series: without 1.patch; with 3.patch" in rows


def test_a_historical_release_is_held_against_the_last_that_states_a_thing() -> None:
    records = Records()
    for name, revision in (("e1", "a" * 40), ("e2", None), ("e3", "b" * 40)):
        records.historical(
            name, identities={} if revision is None else {"sources": {"tool": {"revision": {"sha1": revision}}}}
        )
    steps = {one.second: one.rows for one in gather(records.files).changes}
    assert steps["e2"] == ()
    assert [(row.before, row.after) for row in steps["e3"]] == [("a" * 12 + " (e1)", "b" * 12)]


def test_sizes_are_the_sums_of_the_layers_of_each_platform() -> None:
    assert [(one.release, one.platform, one.size_bytes, one.layers) for one in account().sizes][:3] == [
        ("demo-1", "linux/amd64", 43_000_000, 2),
        ("demo-1", "linux/arm64", 46_000_000, 2),
        ("demo-2", "linux/amd64", 46_300_000, 3),
    ]


def test_scores_are_in_the_order_in_which_they_were_written() -> None:
    assert [(one.release, one.score_bp, dict(one.counts)) for one in account().scores] == [
        ("demo-1", 10_000, {"store": 40, "archive": 12}),
        ("demo-1", 9_615, {"store": 38, "archive": 12, "nowhere": 2}),
        ("demo-2", 10_000, {"store": 55}),
    ]


def test_a_waiver_has_expired_when_its_time_is_before_the_newest_record() -> None:
    told = {one.release: [(held.reason, held.expired) for held in one.waivers] for one in account().promotions}
    assert told == {"demo-1": [("no Spark here", True)], "demo-2": [("no Spark here", False)]}


def test_the_newest_record_gives_the_time_and_never_the_clock() -> None:
    assert account().newest == "2026-11-27 11:06 UTC"
    records = Records()
    records.historical("e1", "2026-10-19")
    assert gather(records.files).newest == "2026-10-19"
    assert gather({}).newest == "not known"


def test_a_sound_chain_has_no_problems_and_names_its_head() -> None:
    records = Records()
    records.historical("e1")
    assert gather(records.files).chain.problems == ()
    assert gather(records.files).chain.head == str(records.previous)
    assert account().chain.problems == ()


def test_an_edited_record_is_a_problem_and_the_rest_is_still_told() -> None:
    files = everything()
    files["releases/0001-e1.json"] = files["releases/0001-e1.json"].replace(b"38.20", b"18.20")
    found = gather(files)
    assert any("edited since it was written" in text for text in found.chain.problems)
    assert len(found.releases) == 6


def test_files_that_are_no_record_are_named() -> None:
    found = gather({"kernels/a.json": b"{}", "certificates/x/a.dsse.json": b"no", "kernels/b.svg": b"<svg/>"})
    assert [text.partition(":")[0] for text in found.unread] == [
        "records/certificates/x/a.dsse.json",
        "records/kernels/a.json",
    ]


def test_experiments_and_observations_are_told_as_rows() -> None:
    (one,) = account().others
    assert (one.kind, one.subject) == ("experiment", "wider-windows")
    assert ("variable", "window") in one.says


def test_no_records_are_an_account_of_nothing() -> None:
    found = gather({})
    assert (found.releases, found.groups, found.sizes, found.chain.head) == ((), (), (), None)


def test_the_account_is_a_body_of_a_record() -> None:
    said = document(account())
    figures = said["groups"]
    assert isinstance(figures, list)
    assert json.dumps(said, sort_keys=True) == json.dumps(document(account()), sort_keys=True)
    assert '{"decimal": "31.59"}' in json.dumps(figures)


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_in_which_files_are_found_changes_nothing(order: int) -> None:
    files = everything()
    assert gather(dict(list(files.items())[::order])) == account()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"release": 7, "shape": [], "evidence": "none", "promoted_s": "soon", "checked": {"a": 1}},
        {"evidence": [{"kind": "waiver", "expires_s": "x"}, 3], "promoted_s": DAY},
    ],
)
def test_a_promotion_that_is_not_as_its_kind_says_stops_nothing(body: dict[str, Json]) -> None:
    records = Records()
    records.append("promoted", "demo-1", body, "ring")
    found = gather(records.files)
    assert len(found.promotions) == 1
    assert found.chain.problems


def test_an_audit_says_its_outcome_first_and_nothing_that_is_empty() -> None:
    (one,) = account().audits
    assert one.says == (("outcome", "same"), ("platforms", "linux/amd64, linux/arm64"))


def test_what_was_nowhere_is_named() -> None:
    assert [one.lost for one in account().scores] == [(), ("lost-0", "lost-1"), ()]


def test_an_edited_audit_is_a_problem_of_its_own_chain() -> None:
    records = Records()
    records.beside("audits/0001-a.json", "audit", "a", {"outcome": "same"})
    files = dict(records.files)
    previous = read_record(files["audits/0001-a.json"]).digest
    after = Record(kind="audit", subject="a", previous=previous, body={"outcome": "same"})
    files["audits/0002-a.json"] = after.encoded()
    assert gather(files).chain.problems == ()
    files["audits/0001-a.json"] = files["audits/0001-a.json"].replace(b"same", b"moved")
    (problem,) = gather(files).chain.problems
    assert problem.startswith("records/audits/0001-a.json: edited since it was written")
