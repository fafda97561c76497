# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

from derive.canonical import Digest, sha256
from derive.differ.model import Limits
from derive.differ.trees import differ_trees
from derive.trees.listing import File, Listing, Symlink
from derive.why.render import render

BYTES: dict[Digest, bytes] = {}


def tree(files: Mapping[str, bytes | str], programs: tuple[str, ...] = ()) -> Listing:
    entries = {}
    for name, data in files.items():
        if isinstance(data, bytes):
            BYTES[sha256(data)] = data
        entries[name.encode()] = (
            File(name in programs, len(data), sha256(data)) if isinstance(data, bytes) else Symlink(data.encode())
        )
    return Listing.of(entries)


def told(first: Listing, second: Listing, limits: Limits | None = None) -> str:
    def read(file: File) -> tuple[bytes]:
        return (BYTES[file.sha256],)

    return render(differ_trees(first, second, (read, read), limits or Limits()), colour=False)


def test_equal_trees_have_no_difference() -> None:
    assert told(tree({"a": b"1"}), tree({"a": b"1"})) == ""


def test_every_kind_of_change_is_told() -> None:
    first = tree({"a/gone": b"1", "a/link": "x", "a/run": b"#!", "a/text": b"one\n"})
    second = tree({"a/new": b"12", "a/link": "y", "a/run": b"#!", "a/text": b"two!\n"}, ("a/run",))
    assert told(first, second).splitlines() == [
        "- a/gone  file of 1 bytes",
        "+ a/new  file of 2 bytes",
        "a/link: link to x -> link to y",
        "a/run: now a program, by its execute bit",
        "a/text: other contents, 4 -> 5 bytes",
        "  line 1",
        "  -one",
        "  +two!",
    ]


def test_of_many_files_the_first_are_opened_and_the_others_counted() -> None:
    names = [f"f{number:02}" for number in range(30)]
    text = told(tree(dict.fromkeys(names, b"1")), tree(dict.fromkeys(names, b"2")), Limits(files=1, rows=4))
    assert text.startswith("f00: other contents\n  line 1\n")
    assert text.endswith("... and 25 more\n30 files differ in contents, the first 1 are shown")
