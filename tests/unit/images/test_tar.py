# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from derive.canonical import EPOCH, sha256
from derive.images.modes import Attributes, ModeTable, Rule
from derive.images.tar import END, Contents, End, Header, header, headers, stream
from derive.store.memory import MemoryStore
from derive.trees.listing import DIRECTORY, Entry, File, Listing, Symlink
from derive.trees.pack import NewFile
from support.layers import FIELD, Given, archive, raw_name, read_back, tree
from support.require import skip_or_fail

ROOT = Attributes(0o644, 0, 0)
EMPTY_FILE = File(executable=False, size=0, sha256=sha256(b""))
LONG = b"/".join(letter * 110 for letter in (b"a", b"b", b"c"))


def test_a_header_is_512_bytes_of_stated_fields() -> None:
    block = header(b"etc/motd", File(executable=False, size=0o1234, sha256=sha256(b"")), Attributes(0o640, 8, 9))
    assert len(block) == 512
    assert block[:100] == b"etc/motd".ljust(100, b"\0")
    assert block[100:136] == b"0000640\x000000010\x000000011\x0000000001234\0"
    assert block[136:148] == b"%011o\0" % EPOCH
    assert block[156:157] == b"0"
    assert block[257:265] == b"ustar\x0000"
    assert block[265:329] == bytes(64)  # no user or group names
    assert block[329:345] == b"0000000\x000000000\0"
    summed = sum(block[:148]) + 8 * 0x20 + sum(block[156:])
    assert block[148:156] == b"%06o\0 " % summed


def test_pieces_come_in_nar_order_with_parents_first_and_no_root() -> None:
    listing = Listing.of([(b"a.b", EMPTY_FILE), (b"a/x", EMPTY_FILE), (b"a-", Symlink(b"a"))])
    pieces = list(headers(listing.items(), ModeTable()))
    assert [piece.path for piece in pieces if isinstance(piece, Header)] == [b"a", b"a/x", b"a-", b"a.b"]
    assert pieces[-1] == End()


def test_only_a_file_with_bytes_has_contents() -> None:
    store = MemoryStore()
    pieces = list(headers(tree(store, FIELD).items(), ModeTable()))
    assert [piece.path for piece in pieces if isinstance(piece, Contents)] == [
        b"usr/bin/tool",
        b"usr/share/doc/readme",
        b"usr/share/noise",
    ]


def test_the_archive_ends_with_two_zero_blocks_and_no_more() -> None:
    store = MemoryStore()
    assert archive(store, tree(store, {})) == END
    data = archive(store, tree(store, {b"a": b"x"}))
    assert len(data) == 512 + 512 + 1024


def test_every_entry_reads_back_with_its_facts() -> None:
    store = MemoryStore()
    listing = tree(store, FIELD)
    modes = ModeTable.of([Rule(path=b"tmp", mode=0o1777, uid=1, gid=2)])
    found = {member.name: member for member in read_back(archive(store, listing, modes))}
    assert list(found) == [path.decode() for path in listing if path]
    assert {member.mtime for member in found.values()} == {EPOCH}
    assert {(member.uname, member.gname) for member in found.values()} == {("", "")}
    assert (found["tmp"].mode, found["tmp"].uid, found["tmp"].gid) == (0o1777, 1, 2)
    assert found["usr/bin/tool"].mode == 0o755
    assert found["usr/share/empty"].mode == 0o644
    assert found["bin"].issym()
    assert found["bin"].linkname == "usr/bin"


def test_a1_names_of_one_file_are_ordinary_files_with_their_own_bytes(tmp_path: Path) -> None:
    store = MemoryStore()
    names = [b"bin/perl%d" % number for number in range(10)]
    data = archive(store, tree(store, dict.fromkeys(names, b"perl")))
    assert archive(store, tree(store, dict.fromkeys(reversed(names), b"perl"))) == data
    (tmp_path / "a.tar").write_bytes(data)
    with tarfile.open(tmp_path / "a.tar") as tar:
        files = [member for member in tar if member.name != "bin"]
        assert {member.type for member in files} == {tarfile.REGTYPE}
        opened = [tar.extractfile(member) for member in files]
        assert [file.read() for file in opened if file] == [b"perl"] * 10


def test_a2_no_header_holds_a_process_id_an_access_time_or_an_attribute() -> None:
    store = MemoryStore()
    data = archive(store, tree(store, {LONG: b"x"}))
    member = read_back(data)[-1]
    assert member.pax_headers == {"path": LONG.decode()}
    assert data[:100].rstrip(b"\0") == b"././@PaxHeader"
    assert archive(store, tree(store, {LONG: b"x"})) == data


def test_a3_long_components_and_long_paths_read_back_exactly() -> None:
    store = MemoryStore()
    paths = [LONG, b"d" * 101, b"e/" * 140 + b"f", b"g" * 155 + b"/" + b"h" * 100, b"i" * 156 + b"/" + b"j"]
    listing = tree(store, dict.fromkeys(paths, b"contents"))
    members = read_back(archive(store, listing))
    assert [raw_name(member) for member in members] == [path for path in listing if path]


@pytest.mark.parametrize(
    ("path", "extended"),
    [
        (b"a" * 100, False),
        (b"a" * 101, True),
        (b"a" * 155 + b"/" + b"b" * 100, False),
        (b"a" * 155 + b"/" + b"b" * 101, True),
        (b"a" * 156 + b"/b", True),
        ("é".encode(), True),
        (b"\xff", True),
        (b"a\nb", False),
    ],
)
def test_a_path_is_extended_only_where_ustar_cannot_hold_it(path: bytes, *, extended: bool) -> None:
    assert (len(header(path, EMPTY_FILE, ROOT)) > 512) is extended


def test_a_folders_slash_counts_towards_what_ustar_holds() -> None:
    assert len(header(b"a" * 99, DIRECTORY, ROOT)) == 512
    assert len(header(b"a" * 100, DIRECTORY, ROOT)) > 512
    assert len(header(b"a" * 20 + b"/" + b"b" * 99, DIRECTORY, ROOT)) == 512


def test_a_target_is_extended_only_where_ustar_cannot_hold_it() -> None:
    assert len(header(b"l", Symlink(b"t" * 100), ROOT)) == 512
    assert b"112 linkpath=" + b"t" * 101 not in header(b"l", Symlink(b"t" * 100), ROOT)
    assert b"115 linkpath=" + b"t" * 101 + b"\n" in header(b"l", Symlink(b"t" * 101), ROOT)


def test_names_that_are_utf_8_are_extended_as_such_and_others_as_binary() -> None:
    accented = header("é".encode(), EMPTY_FILE, ROOT)
    assert accented[512:1024].rstrip(b"\0") == b"11 path=\xc3\xa9\n"
    other = header(b"\xe9", Symlink("é".encode()), ROOT)
    records = b"21 hdrcharset=BINARY\n15 linkpath=\xc3\xa9\n9 path=\xe9\n"
    assert other[512:1024].rstrip(b"\0") == records


@pytest.mark.parametrize("length", [85, 86, 87, 88, 89, 90, 91, 92, 980, 985, 986, 987, 988, 989, 990, 991])
def test_a_record_counts_its_own_length(length: int) -> None:
    body = header(b"x" * length + "é".encode(), EMPTY_FILE, ROOT)[512:]
    stated, _, rest = body.partition(b" ")
    assert body[int(stated) - 1 : int(stated) + 1] in (b"\n\0", b"\n" + b"x")
    assert rest.startswith(b"path=" + b"x" * length + "é".encode() + b"\n")
    assert int(stated) == len(stated) + 1 + len(b"path=\n") + length + 2


def test_a_size_of_8_gib_is_extended() -> None:
    below = File(executable=False, size=(8 << 30) - 1, sha256=sha256(b""))
    assert header(b"a", below, ROOT)[124:136] == b"77777777777\0"
    at = header(b"a", File(executable=False, size=8 << 30, sha256=sha256(b"")), ROOT)
    assert at[512:1024].rstrip(b"\0") == b"19 size=8589934592\n"
    info = tarfile.TarInfo.frombuf(at[1024:], "utf-8", "surrogateescape")
    assert info.size == 0


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([(b"", DIRECTORY), (b"a", EMPTY_FILE), (b"a", EMPTY_FILE)], "the same path twice: a"),
        ([(b"", DIRECTORY), (b"b", EMPTY_FILE), (b"a", EMPTY_FILE)], "out of order: a"),
        ([(b"", DIRECTORY), (b"a/b", EMPTY_FILE)], "no folder above a/b"),
        ([(b"", DIRECTORY), (b"a", Symlink(b"/etc")), (b"a/b", EMPTY_FILE)], "no folder above a/b"),
        ([(b"", DIRECTORY), (b"../a", EMPTY_FILE)], "not a path inside a tree: ../a"),
        ([(b"", EMPTY_FILE)], "root is a folder"),
    ],
)
def test_a5_what_is_no_tree_in_order_is_refused(entries: list[tuple[bytes, Entry]], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        list(headers(entries, ModeTable()))


def test_a_reader_that_gives_another_number_of_bytes_is_refused() -> None:
    listing = Listing.of({b"a": File(executable=False, size=2, sha256=sha256(b"xx"))})
    with pytest.raises(ValueError, match="a: 1 bytes read, 2 listed"):
        list(stream(listing.items(), ModeTable(), lambda _: [b"x"]))


def test_gnu_tar_writes_the_same_bytes_for_plain_names(tmp_path: Path) -> None:
    if shutil.which("tar") is None:
        skip_or_fail("GNU tar is not installed")
    store = MemoryStore()
    listing = tree(store, {**FIELD, b"a/b": b"1", b"a-": b"2", b"a.b": b"3", b"n" * 99: DIRECTORY})
    for path, entry in listing.items():
        there = tmp_path / path.decode()
        match entry:
            case Symlink(target):
                there.symlink_to(target.decode())
            case File(executable):
                there.write_bytes(b"".join(store.read(entry)))
                there.chmod(0o755 if executable else 0o644)
            case _:
                there.mkdir(exist_ok=True)
                there.chmod(0o755)
    command = (
        "tar --format=ustar --numeric-owner --owner=:0 --group=:0 --mtime=@315532800 -b1 --no-recursion -cf - -T -"
    )
    names = b"".join(path + b"\n" for path in listing if path)
    run = subprocess.run(command.split(), input=names, cwd=tmp_path, check=True, capture_output=True)
    assert run.stdout == archive(store, listing)


def test_gnu_tar_unpacks_exactly_what_was_packed(tmp_path: Path) -> None:
    if shutil.which("tar") is None:
        skip_or_fail("GNU tar is not installed")
    store = MemoryStore()
    given: dict[bytes, Given] = {
        **FIELD,
        LONG: b"long",
        "é/ü".encode(): b"accents",
        b"\xff\xfe": b"not UTF-8",
        b"back\\slash new\nline": b"odd",
        b"dangling": Symlink(b"t" * 300),
        b"odd-link": Symlink(b"\xff"),
        b"program": NewFile(executable=True, chunks=[b"#!"]),
    }
    listing = tree(store, given)
    (tmp_path / "out").mkdir()
    run = subprocess.run(
        ["tar", "-xpf", "-", "-C", tmp_path / "out"],
        input=archive(store, listing),
        capture_output=True,
        check=True,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
    )
    # GNU tar knows no hdrcharset, says so, and takes the bytes as they are.
    assert {line for line in run.stderr.splitlines() if b"hdrcharset" not in line} == set()
    out = os.fsencode(tmp_path / "out")
    for path, entry in listing.items():
        there = Path(os.fsdecode(out + b"/" + path))
        match entry:
            case Symlink(target):
                assert os.fsencode(there.readlink()) == target
            case File(executable, size, digest):
                data = there.read_bytes()
                assert (len(data), hashlib.sha256(data).hexdigest()) == (size, digest.hex)
                assert bool(there.stat().st_mode & 0o100) is executable
                assert there.stat().st_mtime == EPOCH
            case _:
                assert there.is_dir()
    assert sum(len(dirs) + len(files) for _, dirs, files in os.walk(out)) == len(listing) - 1
