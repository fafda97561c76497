# SPDX-License-Identifier: Apache-2.0
"""Whatever is edited, taken away or exchanged in a chain before its last record is found."""

from __future__ import annotations

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from derive.canonical import encode
from derive.records.chain import read_chain, verify
from derive.records.model import Record, read_record
from support.chained import two_releases

NUMBERS = st.integers(-(2**40), 2**40)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@cache
def files() -> dict[str, bytes]:
    return two_releases().files


def earlier() -> list[str]:
    return sorted(files())[:3] + [path for path in sorted(files()) if "/" in path]


def is_found(changed: dict[str, bytes]) -> bool:
    return bool(verify(read_chain(changed), changed))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_edit_of_any_byte_is_found(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(earlier()))
    before = files()[path]
    start = data.draw(st.integers(0, len(before)))
    end = data.draw(st.integers(start, min(len(before), start + 4)))
    after = before[:start] + data.draw(st.binary(max_size=4)) + before[end:]
    assert is_found({**files(), path: after}) == (after != before)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_other_value_of_any_key_is_found(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(files())[:3]))
    record = read_record(files()[path])
    key = data.draw(st.sampled_from(sorted(record.body)))
    body = {**record.body, key: data.draw(VALUES)}
    edited = Record(kind=record.kind, subject=record.subject, previous=record.previous, body=body)
    after = edited.encoded() + b"\n"
    assert is_found({**files(), path: after}) == (after != files()[path])


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_whatever_is_taken_away_or_exchanged_is_found(data: st.DataObject) -> None:
    one, two = (data.draw(st.sampled_from(earlier())) for _ in range(2))
    assert is_found({path: content for path, content in files().items() if path != one})
    if one != two:
        assert is_found({**files(), one: files()[two], two: files()[one]})


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=4))
def test_a_record_is_read_back_as_it_was_written_in_any_layout(body: dict[str, object]) -> None:
    record = Record(kind="observed", subject="lab", previous=None, body=body)  # type: ignore[arg-type]
    assert read_record(record.encoded()).encoded() == record.encoded()
    assert read_record(b" " + encode(record.document()) + b"\n").digest == record.digest
