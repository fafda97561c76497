# SPDX-License-Identifier: Apache-2.0
"""The chain of records: what is wrong with it is found, and named."""

from __future__ import annotations

import pytest

from derive.canonical import Json
from derive.errors import Problem
from derive.records.chain import chain_problems, read_chain, verify
from derive.records.folder import next_file, sound
from derive.records.model import Record
from support.chained import Chained, two_releases


def problems(files: dict[str, bytes]) -> list[Problem]:
    return verify(read_chain(files), files)


def places(files: dict[str, bytes]) -> set[str]:
    return {one.where.removeprefix("records/releases/") for one in problems(files)}


def test_a_chain_as_it_was_written_is_sound() -> None:
    assert problems(two_releases().files) == []


def test_an_empty_chain_is_sound_and_has_no_head() -> None:
    assert verify(read_chain({}), {}) == []
    assert read_chain({}).head is None


def test_an_edited_record_is_named_with_both_digests() -> None:
    files = two_releases().files
    before = read_chain(files).entries[1].digest
    files["0002-demo-1-ring.json"] = files["0002-demo-1-ring.json"].replace(b'"Ada"', b'"Eve"')
    (problem,) = problems(files)
    after = read_chain(files).entries[1].digest
    assert problem.where == "records/releases/0002-demo-1-ring.json"
    assert problem.message == "edited since it was written: 0003-demo-2.json names another digest of it"
    assert problem.detail == (f"expected  {before}", f"got       {after}")


def test_a_record_whose_link_was_edited_is_named_and_not_the_one_before_it() -> None:
    files = two_releases().files
    entry = read_chain(files).entries[1]
    record = entry.record
    edited = Record(kind=record.kind, subject=record.subject, previous=entry.digest, body=record.body)
    files[entry.file] = edited.encoded() + b"\n"
    assert places(files) == {entry.file}


def test_other_layout_of_a_record_is_found() -> None:
    files = two_releases().files
    files["0004-demo-1-retired.json"] = files["0004-demo-1-retired.json"].replace(b'":"', b'": "', 1)
    (problem,) = problems(files)
    assert problem.message == "not the canonical bytes of this record and a line feed"


def test_a_record_that_is_gone_is_found_by_its_number() -> None:
    files = two_releases().files
    del files["0002-demo-1-ring.json"]
    assert "no record has the number 0002, and later ones are there" in {one.message for one in problems(files)}


@pytest.mark.parametrize("name", ["release.json", "facts.json"])
def test_an_edited_document_is_found(name: str) -> None:
    files = two_releases().files
    path = f"demo-2/{name}"
    files[path] = files[path].replace(b"linux/amd64", b"linux/amd65", 1)
    (problem,) = problems(files)
    assert (problem.where, problem.message) == (
        f"records/releases/{path}",
        "not what 0003-demo-2.json names: edited since",
    )


def test_a_document_that_is_gone_is_found_and_one_that_nobody_names() -> None:
    files = two_releases().files
    files["demo-3/release.json"] = files.pop("demo-2/release.json")
    assert places(files) == {"demo-2/release.json", "demo-3/release.json"}


def test_two_records_of_one_number_are_named_with_the_remedy() -> None:
    ours, theirs = two_releases(), two_releases()
    ours.retire("demo-2")
    theirs.release("demo-3", moved="patch")
    files = {**ours.files, **theirs.files}
    (problem,) = problems(files)
    assert problem.where == "records/releases/0005-demo-3.json"
    assert problem.message == "two records have the number 0005: each followed the same one, on a branch of its own"
    assert problem.hint == "put it after all others: derive records renumber 0005-demo-3"


OURS, THEIRS = "0005-demo-2-retired.json", "0005-demo-3.json"


@pytest.mark.parametrize(
    ("published", "moves", "hint"),
    [
        ({THEIRS}, OURS, "put it after all others"),
        ({OURS}, THEIRS, "put it after all others"),
        ({OURS, THEIRS}, THEIRS, "put one of them after all others"),
        (set(), THEIRS, "put one of them after all others"),
    ],
)
def test_of_two_records_of_one_number_the_published_one_keeps_it(published: set[str], moves: str, hint: str) -> None:
    ours, theirs = two_releases(), two_releases()
    ours.retire("demo-2")
    theirs.release("demo-3", moved="patch")
    files = {**ours.files, **theirs.files}
    (problem,) = chain_problems(read_chain(files), files, published)
    assert problem.where == f"records/releases/{moves}"
    assert problem.hint == f"{hint}: derive records renumber {moves.removesuffix('.json')}"
    assert problem.detail[1] == f"published {', '.join(sorted(published)) or 'none of them'}"


def test_records_of_both_branches_after_one_number_are_no_edits() -> None:
    ours, theirs = two_releases(), two_releases()
    ours.retire("demo-2")
    ours.retire("demo-1")
    theirs.release("demo-3", moved="patch")
    theirs.retire("demo-3")
    messages = {one.message.partition(":")[0] for one in problems({**ours.files, **theirs.files})}
    assert messages == {"two records have the number 0005", "two records have the number 0006"}


@pytest.mark.parametrize("file", ["1-demo.json", "0001-Demo.json", "notes.txt", "0001.json"])
def test_a_file_of_another_name_is_no_record(file: str) -> None:
    (problem,) = problems({file: b"{}"})
    assert (problem.where, problem.message) == (f"records/releases/{file}", "not the name of a record")


@pytest.mark.parametrize(
    ("data", "where", "message"),
    [
        (b"{", "", "cannot be read as JSON: line 1, column 2"),
        (b"[]", ": derive", "not a record/1"),
        (b'{"derive":"record/1","kind":"a","subject":"b","previous":null}', ": body", "this key is missing"),
        (
            b'{"body":{},"derive":"record/1","kind":"a","more":1,"previous":null,"subject":"b"}',
            ": more",
            "unknown key",
        ),
        (b'{"body":{},"derive":"record/1","kind":1,"previous":null,"subject":"b"}', ": kind", "not a name"),
        (
            b'{"body":{},"derive":"record/1","kind":"a","previous":"x","subject":"b"}',
            ": previous",
            "not a sha256 digest: 'x'",
        ),
    ],
)
def test_what_is_no_record_is_said_with_its_key(data: bytes, where: str, message: str) -> None:
    (problem,) = problems({"0001-b.json": data})
    assert (problem.where, problem.message) == (f"records/releases/0001-b.json{where}", message)


def test_a_name_that_is_not_the_subject_s_is_found() -> None:
    chained = two_releases()
    chained.files["0004-demo-2-retired.json"] = chained.files.pop("0004-demo-1-retired.json")
    (problem,) = problems(chained.files)
    assert problem.message == "a file's name that its subject does not have"


def test_a_release_that_no_earlier_record_makes_is_no_reference() -> None:
    chained = two_releases()
    chained.retire("demo-4")
    (problem,) = problems(chained.files)
    assert problem.where == "records/releases/0005-demo-4-retired.json: body.release"
    assert problem.message == "no earlier record makes a release 'demo-4'"


def test_a_promotion_of_another_digest_than_the_release_s_is_found() -> None:
    chained = Chained()
    chained.release("demo-1")
    other, _ = Chained().release("demo-1", moved="lock")
    name = chained.promote("demo-1", other, "ring")
    assert places(chained.files) == {f"{name}: body.release"}


def test_a_second_release_of_one_name_is_found() -> None:
    chained = Chained()
    chained.release("demo-1")
    entry = read_chain(chained.files).entries[0]
    body: dict[str, Json] = dict(entry.record.body)
    name, data = next_file(sound(chained.files), "candidate", "demo-1", body)
    assert places({**chained.files, name: data}) == {name}


def test_a_record_of_a_newer_format_says_what_was_expected_and_what_reads_it() -> None:
    files = two_releases().files
    files["0001-demo-1.json"] = files["0001-demo-1.json"].replace(b'"record/1"', b'"record/2"')
    problem = read_chain(files).problems[0]
    assert problem.where == "records/releases/0001-demo-1.json: derive"
    assert problem.message == "a record of another format"
    assert problem.detail == ("expected  record/1", "got       record/2")
    assert problem.hint == "a newer derive wrote it: read it with that one"
