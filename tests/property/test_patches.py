# SPDX-License-Identifier: Apache-2.0
"""Patches against independent witnesses: git and GNU diff make them, git and GNU patch apply them beside us."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from derive.canonical import decode, encode
from derive.errors import InputErrors
from derive.patches.apply import FileState, apply_patch, apply_series
from derive.patches.identity import from_document, patch_document
from derive.patches.model import (
    Copy,
    Create,
    Delete,
    FileOperation,
    Hunk,
    Line,
    Modify,
    Rename,
    SetExecutable,
    conflicts,
    hunk_faults,
)
from derive.patches.parse import parse_patch

Tree = dict[bytes, FileState]

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CEILING_DIRECTORIES": "/",
}
TOOLS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

WORDS = st.sampled_from([b"", b"a", b"b", b"}", b"\tx", b"%41", b"-- ", b"++ y", b"\\ No", b"@@ -1 +1 @@", b"\xff\xfe"])
ROWS = st.tuples(WORDS, st.sampled_from([b"\n", b"\n", b"\n", b"\r\n"])).map(b"".join)


@st.composite
def contents(draw: st.DrawFn, *, least: int = 0) -> bytes:
    rows = draw(st.lists(ROWS, min_size=least, max_size=30))
    whole = b"".join(rows)
    return whole.rstrip(b"\r\n") if draw(st.booleans()) else whole


@st.composite
def edited(draw: st.DrawFn, before: bytes) -> bytes:
    """A few insertions, deletions and replacements of lines, and perhaps another end of the file."""
    rows = before.splitlines(keepends=True)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(rows)))
        rows[at : at + draw(st.integers(0, 2))] = draw(st.lists(ROWS, max_size=3))
    whole = b"".join(rows)
    return draw(st.sampled_from([whole, whole, whole.rstrip(b"\r\n"), whole + b"\n"]))


PATHS = st.sampled_from(
    [b"a", b"dir/b", b"dir/c c", b'd "q"', b"\xc3\xa9/t\tab", b"n\xff", b"x b/x", b"new\nline", b"z"]
)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    found = draw(st.dictionaries(PATHS, st.tuples(contents(), st.booleans()), max_size=5))
    return {path: FileState(contents=data, executable=executable) for path, (data, executable) in found.items()}


@st.composite
def tree_pairs(draw: st.DrawFn) -> tuple[Tree, Tree]:
    """A tree, and the tree after edits, mode changes, renames, copies, creations and deletions."""
    before = draw(trees())
    after = dict(before)
    for path in list(before):
        state = before[path]
        match draw(st.sampled_from(["keep", "edit", "edit", "mode", "delete", "move", "copy"])):
            case "edit":
                after[path] = FileState(contents=draw(edited(state.contents)), executable=state.executable)
            case "mode":
                after[path] = FileState(contents=state.contents, executable=not state.executable)
            case "delete":
                del after[path]
            case "move" | "copy" as kind:
                if kind == "move":
                    del after[path]
                after[b"moved/" + path] = FileState(
                    contents=draw(edited(state.contents)), executable=draw(st.booleans())
                )
            case _:
                pass
    after.update(draw(trees()))
    return before, after


def run(where: Path, *command: str, given: bytes = b"", codes: Sequence[int] = (0,), **env: str) -> bytes:
    done = subprocess.run(
        command, cwd=where, env=ENVIRONMENT | env, input=given, capture_output=True, check=False, timeout=60
    )
    assert done.returncode in codes, done.stderr + done.stdout
    return done.stdout


def write(folder: Path, tree: Mapping[bytes, FileState]) -> None:
    for path, state in tree.items():
        file = folder / os.fsdecode(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(state.contents)
        file.chmod(0o755 if state.executable else 0o644)


def tree_after(before: Tree, data: bytes) -> Tree:
    after: dict[bytes, FileState | None] = {**before}
    after.update(apply_patch(parse_patch("p", data).operations, before.get).changes)
    return {path: state for path, state in after.items() if state is not None}


@pytest.fixture(scope="module")
def repository() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(folder, "git", "init", "--quiet", ".")
        run(folder, "git", "config", "core.autocrlf", "false")
        yield folder


def git_tree(repository: Path, tree: Tree) -> str:
    """Write a tree of git without touching a work tree."""
    rows = []
    for path, state in tree.items():
        blob = run(repository, "git", "hash-object", "-w", "--stdin", given=state.contents).strip()
        rows.append(b"%s %s\t%s\0" % (b"100755" if state.executable else b"100644", blob, path))
    run(repository, "git", "read-tree", "--empty")
    run(repository, "git", "update-index", "-z", "--index-info", given=b"".join(rows))
    return run(repository, "git", "write-tree").decode().strip()


@TOOLS
@given(
    pair=tree_pairs(),
    width=st.sampled_from([1, 2, 3, 8]),
    moves=st.sampled_from([(), ("-M", "-C", "-C"), ("-B", "-M")]),
)
def test_what_git_diffs_between_two_trees_gives_the_second_tree(
    repository: Path, pair: tuple[Tree, Tree], width: int, moves: tuple[str, ...]
) -> None:
    before, after = pair
    assume(before != after and not _file_and_folder(before) and not _file_and_folder(after))
    old, new = git_tree(repository, before), git_tree(repository, after)
    data = run(repository, "git", "diff", "--text", f"-U{width}", *moves, old, new)
    assert tree_after(before, data) == after


def _file_and_folder(tree: Tree) -> bool:
    return any(other.startswith(path + b"/") for path in tree for other in tree)


@TOOLS
@given(pair=tree_pairs(), zone=st.sampled_from(["UTC0", "CET-1", "XXX3:30"]))
def test_what_gnu_diff_prints_for_two_folders_gives_the_second_folder(pair: tuple[Tree, Tree], zone: str) -> None:
    before, after = (
        {p: FileState(contents=s.contents) for p, s in tree.items() if s.contents and p.isascii() and b"\n" not in p}
        for tree in pair
    )
    assume(before != after and not _file_and_folder({**before, **after}))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, tree in (("a", before), ("b", after)):
            (folder / side).mkdir()
            write(folder / side, tree)
        data = run(folder, "diff", "--text", "-urN", "a", "b", codes=(1,), TZ=zone)
    assert tree_after(before, data) == after


@TOOLS
@given(data=st.data(), before=contents(least=8))
def test_on_a_file_that_moved_on_what_applies_agrees_with_git_and_gnu_patch(data: st.DataObject, before: bytes) -> None:
    """Git and GNU patch pick the nearest place where there are several; where we find one, they find the same."""
    after, now = data.draw(edited(before)), data.draw(edited(before))
    assume(after not in (before, now))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, whole in (("a", before), ("b", after)):
            write(folder, {side.encode() + b"/f": FileState(contents=whole)})
        diff = run(folder, "git", "diff", "--no-index", "--no-prefix", "--text", "a/f", "b/f", codes=(0, 1))
        assume(b"--- a/f\n+++ b/f\n" in diff)
        try:
            changes = apply_patch(parse_patch("p", diff).operations, {b"f": FileState(contents=now)}.get).changes
        except InputErrors:
            return
        ours = changes[b"f"]
        assert ours is not None
        write(folder, {b"f": FileState(contents=now)})
        run(folder, "patch", "--binary", "-p1", "--fuzz=0", "--no-backup-if-mismatch", given=diff)
        assert (folder / "f").read_bytes() == ours.contents
        write(folder, {b"f": FileState(contents=now)})
        run(folder, "git", "apply", "--whitespace=nowarn", "-", given=diff, codes=(0, 1))
        assert (folder / "f").read_bytes() in (ours.contents, now)


@TOOLS
@given(data=st.data(), before=contents())
def test_a_patch_applies_once(data: st.DataObject, before: bytes) -> None:
    after = data.draw(edited(before))
    assume(before != after)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, {b"a/f": FileState(contents=before), b"b/f": FileState(contents=after)})
        diff = run(folder, "git", "diff", "--no-index", "--no-prefix", "--text", "a/f", "b/f", codes=(1,))
    operations = parse_patch("p", diff).operations
    assert apply_patch(operations, {b"f": FileState(contents=before)}.get).changes == {b"f": FileState(contents=after)}
    reverted = _reversed(operations)
    both = apply_series((operations, reverted), {b"f": FileState(contents=before)}.get)
    assert both.changes == {}


def _reversed(operations: Sequence[FileOperation]) -> tuple[FileOperation, ...]:
    (modify,) = operations
    assert isinstance(modify, Modify)
    delta, hunks = 0, []
    for hunk in modify.hunks:
        lines = tuple(Line({"+": "-", "-": "+"}.get(line.tag, " "), line.content) for line in hunk.lines)  # type: ignore[arg-type]
        start = hunk.start + delta if hunk.old and hunk.new else int(bool(hunk.new))
        hunks.append(Hunk(start, lines))
        delta += len(hunk.new) - len(hunk.old)
    return (Modify(path=modify.path, hunks=tuple(hunks)),)


LINE = st.binary(max_size=4).map(lambda raw: raw.replace(b"\n", b"%") + b"\n")


@st.composite
def hunks(draw: st.DrawFn) -> tuple[Hunk, ...]:
    found: list[Hunk] = []
    start = 1
    for _ in range(draw(st.integers(1, 3))):
        start += draw(st.integers(0, 3))
        lead = draw(st.lists(LINE, max_size=3))
        changes = draw(st.lists(st.tuples(st.sampled_from(["+", "-"]), LINE), min_size=1, max_size=4))
        tail = draw(st.lists(LINE, max_size=3))
        lines = [Line(" ", c) for c in lead] + [Line(t, c) for t, c in changes] + [Line(" ", c) for c in tail]  # type: ignore[arg-type]
        if draw(st.booleans()) and lines[-1].content != b"\n":
            lines[-1] = Line(lines[-1].tag, lines[-1].content[:-1])
        found.append(Hunk(start, tuple(lines)))
        start += len(found[-1].old)
    assume(not list(hunk_faults(found)))
    return tuple(found)


NAMES = st.binary(min_size=1, max_size=3).map(lambda raw: b"p" + raw.replace(b"/", b"_").replace(b"\0", b"0"))
BIT = st.sampled_from([None, True, False])
OPERATIONS: st.SearchStrategy[FileOperation] = st.one_of(
    st.builds(Modify, path=NAMES, hunks=hunks(), executable=BIT),
    st.builds(Create, path=NAMES, contents=st.binary(max_size=12), executable=st.booleans()),
    st.builds(Delete, path=NAMES, contents=st.binary(max_size=12)),
    st.builds(Rename, old=NAMES, new=NAMES, hunks=st.one_of(st.just(()), hunks()), executable=BIT),
    st.builds(Copy, old=NAMES, new=NAMES, hunks=st.one_of(st.just(()), hunks()), executable=BIT),
    st.builds(SetExecutable, path=NAMES, executable=st.booleans()),
)
PATCHES = st.lists(OPERATIONS, min_size=1, max_size=3).map(tuple).filter(lambda ops: not list(conflicts(ops)))


@given(operations=PATCHES)
def test_operations_come_back_from_their_canonical_document(operations: tuple[FileOperation, ...]) -> None:
    """A left inverse exists, so two lists of operations never share a document."""
    assert from_document(decode(encode(patch_document(operations)))) == operations


@given(one=PATCHES, two=PATCHES)
def test_different_operations_have_different_documents(
    one: tuple[FileOperation, ...], two: tuple[FileOperation, ...]
) -> None:
    assert (encode(patch_document(one)) == encode(patch_document(two))) == (one == two)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=20).map(lambda t: "| " + t)


@given(
    head=st.lists(TEXT, max_size=4),
    section=TEXT,
    index=st.from_regex(r"[0-9a-f]{7}", fullmatch=True),
    tail=st.booleans(),
)
def test_headers_sections_and_index_rows_are_in_no_document(
    head: list[str], section: str, index: str, tail: bool
) -> None:
    change = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@{}\n a\n-b\n+c\n"
    plain = parse_patch("one", change.format("").encode())
    rows = "".join(f"{row}\n" for row in head) + f"diff --git a/f b/f\nindex {index}..0000000 100644\n"
    rows += change.format(" " + section) + ("-- \n2.39.5\n\n" if tail else "")
    assert patch_document(parse_patch("two", rows.encode()).operations) == patch_document(plain.operations)


ANY_ROW = st.sampled_from(
    b"""diff --git a/f b/f|--- a/f|+++ b/f|index 1..2 120000|@@ -1,3 +1,3 @@|@@ -1 +1 @@|@@ -0,0 +1 @@|GIT binary patch
 a|-a|+b| ||-- |text| a\r|--- "a/\\3|rename from f|rename to g|copy from f|copy to f|new file mode 100644
old mode 100644|new mode 100755|+++ /dev/null|--- /dev/null|\\ No newline at end of file|deleted file mode 100755
""".replace(b"\n", b"|").split(b"|")
)


@settings(max_examples=400)
@given(rows=st.lists(ANY_ROW, max_size=14))
def test_any_rows_are_a_patch_or_refused(rows: list[bytes]) -> None:
    try:
        patch = parse_patch("p", b"\n".join([*rows, b""]))
    except InputErrors:
        return
    assert from_document(patch_document(patch.operations)) == patch.operations
