# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import csv
import hashlib
import io

import pytest

from derive.archives import unpack_wheel
from derive.errors import InputErrors
from derive.store.memory import MemoryStore
from derive.store.protocol import read_all
from derive.trees.listing import File, Listing
from derive.trees.pack import NewFile, add_members
from derive.wheels.record import Row, add_record, parse_record, record_of, verify_record
from support.archives import Zip, put, record_line, said, wheel

SITE = b"usr/local/lib/python3.13/dist-packages"
INFO = b"demo-1.0.dist-info"


def parse(data: bytes) -> tuple[Row, ...]:
    return parse_record("w.whl", b"RECORD", data)


def test_rows_are_read_with_quotes_either_line_end_and_no_hash() -> None:
    rows = parse(b'"a, ""b""",sha256=AA,3\r\nc,sha512=BB,\nRECORD,,\n\n')
    assert rows == (
        Row(path=b'a, "b"', algorithm="sha256", value="AA", size=3),
        Row(path=b"c", algorithm="sha512", value="BB", size=None),
        Row(path=b"RECORD", algorithm="", value="", size=None),
    )


@pytest.mark.parametrize(
    "line", [b"a", b"a,b", b",sha256=A,1", b"a,sha256=,1", b"a,AA,1", b"a,sha256=A,-1", b"a,b,c,d"]
)
def test_a_line_that_is_no_row_is_refused_with_its_number(line: bytes) -> None:
    with pytest.raises(InputErrors) as caught:
        parse(b"x,,\n" + line + b"\n")
    assert "line 2" in said(caught.value)


def verify(data: bytes) -> None:
    store = MemoryStore()
    listing = unpack_wheel(store, put(store, data), name="w.whl").listing
    record = listing[INFO + b"/RECORD"]
    assert isinstance(record, File)
    verify_record("w.whl", store, listing, INFO, parse(read_all(store, record)))


def test_the_record_of_a_whole_wheel_verifies_signatures_or_not() -> None:
    verify(wheel(Zip(name=b"a.py", data=b"1")))
    extra = (Zip(name=INFO + b"/RECORD.jws", data=b"{}"), Zip(name=INFO + b"/RECORD.p7s", data=b"x"))
    body = [Zip(name=b"a.py", data=b"1"), *extra]
    verify(wheel(*body))


@pytest.mark.parametrize("algorithm", ["sha384", "sha512"])
def test_longer_hashes_verify_too(algorithm: str) -> None:
    def line(data: bytes) -> bytes:
        value = base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest()).rstrip(b"=")
        return b"a.py," + algorithm.encode() + b"=" + value + b",\n"

    verify(wheel(Zip(name=b"a.py", data=b"1"), record=line(b"1") + rest()))
    with pytest.raises(InputErrors) as caught:
        verify(wheel(Zip(name=b"a.py", data=b"1"), record=line(b"2") + rest()))
    assert "w.whl: a.py: RECORD states another hash" in said(caught.value)


def rest(*, without: bytes = b"") -> bytes:
    """Return the lines of the two files that every test wheel has."""
    metadata = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
    about = b"Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    lines = {b"METADATA": metadata, b"WHEEL": about}
    return b"".join(record_line(INFO + b"/" + n, d) for n, d in lines.items() if n != without) + INFO + b"/RECORD,,\n"


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (record_line(b"a.py", b"2") + rest(), "a.py: RECORD states another hash"),
        (record_line(b"a.py", b"22") + rest(), "a.py: RECORD states another size"),
        (rest(), "a.py: the wheel holds it, and RECORD does not list it"),
        (b"a.py,,\n" + rest(), "a.py: RECORD gives it no SHA-256"),
        (b"a.py,md5=xMpCOKC5I4INzFCab3WEmw,1\n" + rest(), "a.py: RECORD gives it no SHA-256"),
        (record_line(b"a.py", b"1") * 2 + rest(), "a.py: RECORD lists it twice"),
        (record_line(b"a.py", b"1") + record_line(b"b.py", b"") + rest(), "b.py: RECORD lists it, and the wheel does"),
        (record_line(b"a.py", b"1") + record_line(b"../x", b"") + rest(), "../x: RECORD lists it, and the wheel does"),
        (record_line(b"a.py", b"1") + rest(without=b"METADATA"), "METADATA: the wheel holds it"),
    ],
)
def test_a_record_that_does_not_match_is_refused_by_name(record: bytes, why: str) -> None:
    with pytest.raises(InputErrors) as caught:
        verify(wheel(Zip(name=b"a.py", data=b"1"), record=record))
    assert why in said(caught.value)


def tree(store: MemoryStore, **files: bytes) -> Listing:
    names = {name.encode(): data for name, data in files.items()}
    return add_members(store, ((path, NewFile(executable=False, chunks=[data])) for path, data in names.items()))


def installed(store: MemoryStore) -> Listing:
    return tree(
        store,
        **{
            (SITE + b"/demo/__init__.py").decode(): b"x = 1\n",
            (SITE + b"/demo/__pycache__/__init__.cpython-313.pyc").decode(): b"code",
            (SITE + b'/demo/a, "b".txt').decode(): b"",
            (SITE + b"/demo/\xc3\xa4").decode(): b"",
            (SITE + b"/" + INFO + b"/METADATA").decode(): b"m",
            (SITE + b"/" + INFO + b"/RECORD").decode(): b"old",
            "usr/local/bin/demo": b"#!",
            "usr/local/share/man/demo.1": b"m",
        },
    )


def test_the_record_lists_every_file_sorted_relative_and_itself_without_a_hash() -> None:
    path, text = record_of(installed(MemoryStore()), SITE, name="tree")
    assert path == SITE + b"/" + INFO + b"/RECORD"
    lines = text.splitlines(keepends=True)
    assert lines == sorted(lines)
    assert record_line(b"../../../bin/demo", b"#!") in lines
    assert record_line(b"../../../share/man/demo.1", b"m") in lines
    assert record_line(b"demo/__pycache__/__init__.cpython-313.pyc", b"code") in lines
    assert record_line(b'"demo/a, ""b"".txt"', b"") in lines
    assert INFO + b"/RECORD,,\n" in lines
    assert len(lines) == 8


def test_the_record_reads_back_as_csv() -> None:
    _, text = record_of(installed(MemoryStore()), SITE, name="tree")
    rows = list(csv.reader(io.StringIO(text.decode())))
    assert ['demo/a, "b".txt', "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU", "0"] in rows
    assert all(len(row) == 3 for row in rows)


def test_adding_the_record_replaces_an_old_one_and_is_stable() -> None:
    store = MemoryStore()
    listing = add_record(store, installed(store), SITE, name="tree")
    again = add_record(store, listing, SITE, name="tree")
    assert store.add_listing(listing) == store.add_listing(again)
    assert set(listing) == set(installed(store))


@pytest.mark.parametrize(
    "files",
    [
        {"usr/local/bin/x": b""},
        {(SITE + b"/a-1.dist-info/METADATA").decode(): b"", (SITE + b"/b-1.dist-info/METADATA").decode(): b""},
        {(SITE + b"/sub/a-1.dist-info/METADATA").decode(): b""},
    ],
)
def test_a_tree_without_exactly_one_dist_info_is_refused(files: dict[str, bytes]) -> None:
    with pytest.raises(InputErrors) as caught:
        record_of(tree(MemoryStore(), **files), SITE, name="tree")
    assert "exactly one .dist-info" in said(caught.value)


def test_a_path_that_is_not_utf_8_is_refused() -> None:
    store = MemoryStore()
    odd = add_members(store, [(SITE + b"/\xff", NewFile(executable=False, chunks=[]))])
    listing = Listing.of({**installed(store), **odd})
    with pytest.raises(InputErrors) as caught:
        record_of(listing, SITE, name="tree")
    assert "not UTF-8" in said(caught.value)
