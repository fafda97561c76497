# SPDX-License-Identifier: Apache-2.0
"""What counts as a reference to the sandbox, and what only looks like one."""

from __future__ import annotations

import pytest

from derive.canonical import sha256
from derive.sandbox.references import (
    SANDBOX_PATHS,
    Allowance,
    Matcher,
    Reference,
    ReferenceScan,
    judge_references,
)
from derive.trees.listing import DIRECTORY, File, Symlink
from derive.trees.pack import Member, NewFile

STORE = b"/home/ann/.local/share/derive"


def found_in(*pieces: bytes) -> dict[bytes, tuple[int, int]]:
    matcher = Matcher((*SANDBOX_PATHS, STORE))
    for piece in pieces:
        matcher.feed(piece)
    return matcher.finish()


@pytest.mark.parametrize(
    "text",
    [
        b"/build",
        b"/build/x.c",
        b"prefix=/build\n",
        b"'/build'",
        b'"/out/usr/lib"',
        b"cd /out;",
        b"a:/out:b",
        b"file:///build/x",
        b"-I/build/include",
        b" -L/out/usr/lib",
        b"gcc -I/in/src",
        b"<path>/out/x</path>",
        b"[/in/src]",
        b"/in/",
        b"--prefix-map=/in/src=/usr/src",
        b"#!/build/env/bin/python3\n",
        b"see " + STORE + b"/blobs",
    ],
)
def test_references_in_text(text: bytes) -> None:
    assert len(found_in(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        b"/output",
        b"/builddir",
        b"/build-1.2",
        b"/build.log",
        b"/out_of_tree",
        b"/usr/lib/build",
        b"lib/build/x",
        b"./build/x.c",
        b"../out",
        b"~/build",
        b"${dir}/build/x",
        b"$(top)/out",
        b"@top@/build",
        b"*/build",
        b"%s/out",
        b"https://out/of/here",
        b"// comment //out of it",
        b"</build>",
        b"fetch/build it",
        b"w/out",
        b"plug/in/s",
        b"/in",
        b"/include/x.h",
        b"foo-L/build",
        b"caf\xc3\xa9/build",
        b"/build\xc3\xa9",
        STORE + b"-old/blobs",
        b"",
    ],
)
def test_no_references_in_text(text: bytes) -> None:
    assert found_in(text) == {}


@pytest.mark.parametrize(
    "data",
    [
        b"\0/build/x.c\0",
        b"\0..value/build/src/lib.rs",
        b"a.rs\0self.len()/build/src/lib.rs",
        b"\xda\x00\xfaz/build/setup.py",
        b"\0-I/build",
        b"\xff\xff\0\xff/build/x",
    ],
)
def test_references_in_binary_files_where_strings_touch(data: bytes) -> None:
    assert list(found_in(data)) == [b"/build"]


@pytest.mark.parametrize(
    "data",
    [
        b"\0pip/_internal/operations/build/wheel.py",
        b"\0./build/../src/x.c",
        b"\0fetch/build it",
        b"\0/lib/modules/%1$s/build/vmlinux",
        b"\0/usr/lib/build\0",
        b"\0w/out",
    ],
)
def test_no_references_in_binary_files_where_a_path_goes_on(data: bytes) -> None:
    assert found_in(data) == {}


def test_offset_and_count_are_those_of_the_stream() -> None:
    assert found_in(b"x" * 100_000, b" /build /build\n/ou", b"t/x /buil", b"d") == {
        b"/build": (100_001, 3),
        b"/out": (100_015, 1),
    }


def test_a_file_is_binary_by_its_beginning_however_it_is_cut() -> None:
    late = b"value/build/x" + b" " * 9000 + b"\0"
    assert found_in(late) == {}
    early = b"value/build/x" + b" " * 8000 + b"\0"
    assert found_in(*(early[i : i + 1] for i in range(len(early)))) == {b"/build": (5, 1)}


def test_watched_members_pass_unchanged_and_are_searched_everywhere() -> None:
    members: list[tuple[bytes, Member]] = [
        (b"", DIRECTORY),
        (b"build", DIRECTORY),
        (b"build/x", NewFile(executable=True, chunks=[b"a /ou", b"t"])),
        (b"link", Symlink(b"/build/x")),
        (b"out", Symlink(b"usr/out")),
        (b"usr/out", File(executable=False, size=0, sha256=sha256(b""))),
    ]
    scan = ReferenceScan(SANDBOX_PATHS)
    seen = []
    for path, member in scan.watch(members):
        seen.append(path)
        if isinstance(member, NewFile):
            assert member.executable
            assert b"".join(member.chunks) == b"a /out"
    assert seen == [path for path, _ in members]
    assert sorted(scan.found) == [
        Reference(path=b"build", text=b"/build", place="name", offset=0, count=1),
        Reference(path=b"build/x", text=b"/out", place="contents", offset=2, count=1),
        Reference(path=b"link", text=b"/build", place="link target", offset=0, count=1),
        Reference(path=b"out", text=b"/out", place="name", offset=0, count=1),
    ]


def reference(path: bytes, text: bytes = b"/build") -> Reference:
    return Reference(path=path, text=text, place="contents", offset=7, count=1)


def test_an_allowance_covers_its_paths_and_its_text() -> None:
    allowed = Allowance(path="usr/share/doc/*", text="/build", reason="an example in the manual")
    found = [reference(b"usr/share/doc/a/b"), reference(b"usr/share/doc/a/b", b"/out"), reference(b"usr/bin/x")]
    refused, stale = judge_references(found, [allowed])
    assert refused == (reference(b"usr/bin/x"), reference(b"usr/share/doc/a/b", b"/out"))
    assert stale == ()


def test_an_allowance_that_allows_nothing_is_stale() -> None:
    used = Allowance(path="*", text="/build", reason="a")
    stale = Allowance(path="usr/lib/*", text="/build", reason="b")
    assert judge_references([reference(b"x")], [used, stale]) == ((), (stale,))


def test_paths_that_are_not_ascii_are_allowed_by_their_escaped_form() -> None:
    allowed = Allowance(path="caf%E9", text="/build", reason="a")
    assert judge_references([reference(b"caf\xe9")], [allowed]) == ((), ())
