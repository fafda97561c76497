# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from derive.archives.names import DEFAULT_LIMITS, Limits
from derive.archives.notes import Dropped, Note
from derive.archives.stream import Bytes
from derive.archives.tar import HardLink, TarMember, read_tar
from derive.errors import Corrupt, DeriveError, InputErrors
from derive.trees.listing import DIRECTORY, Symlink
from derive.trees.pack import NewFile
from support.archives import Tar, folder, hardlink, pax, said, symlink, tar

Seen = dict[bytes, object]


def read(data: bytes, *, limits: Limits = DEFAULT_LIMITS, strip: int = 0) -> tuple[Seen, list[Note]]:
    """Read an archive in small pieces: files become (contents, executable)."""
    notes: list[Note] = []
    stream = Bytes("x.tar", (data[n : n + 700] for n in range(0, len(data), 700)))
    seen: Seen = {}
    for path, member in read_tar("x.tar", stream, notes, limits=limits, strip=strip):
        seen[path] = shown(member)
    return seen, notes


def shown(member: TarMember) -> object:
    return (b"".join(member.chunks), member.executable) if isinstance(member, NewFile) else member


def refusal(data: bytes, **more: int) -> str:
    with pytest.raises(DeriveError) as caught:
        read(data, **more)  # type: ignore[arg-type]
    return said(caught.value)


def test_members_come_in_order_with_their_contents() -> None:
    seen, notes = read(
        tar(
            folder(b"./"),
            Tar(name=b"./a", data=b"x" * 1500),
            Tar(name=b"./b", data=b"run", mode=0o755),
            symlink(b"./l", b"a"),
            hardlink(b"./h", b"./a"),
            Tar(name=b"./empty"),
        )
    )
    assert seen == {
        b"": DIRECTORY,
        b"a": (b"x" * 1500, False),
        b"b": (b"run", True),
        b"l": Symlink(b"a"),
        b"h": HardLink(b"a"),
        b"empty": (b"", False),
    }
    assert list(seen)[:2] == [b"", b"a"]
    assert notes == []


def test_contents_that_nobody_reads_are_passed_over() -> None:
    stream = Bytes("x.tar", iter([tar(Tar(name=b"a", data=b"x" * 5000), Tar(name=b"b", data=b"y"))]))
    members = read_tar("x.tar", stream, [], limits=DEFAULT_LIMITS)
    assert [path for path, _ in members] == [b"a", b"b"]


def test_contents_read_in_part_are_passed_over_too() -> None:
    data = tar(Tar(name=b"a", data=b"x" * 5000), Tar(name=b"b", data=b"y"))
    stream = Bytes("x.tar", (data[n : n + 512] for n in range(0, len(data), 512)))
    seen = []
    for path, member in read_tar("x.tar", stream, [], limits=DEFAULT_LIMITS):
        assert isinstance(member, NewFile)
        next(iter(member.chunks))
        seen.append(path)
    assert seen == [b"a", b"b"]


LONG = b"/".join([b"d" * 120, b"e" * 130, b"f" * 140])


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_and_targets_read_back_exactly(form: int) -> None:
    """A path of components over 100 bytes each, and over 255 in all."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        info = tarfile.TarInfo(LONG.decode())
        info.size = 4
        archive.addfile(info, io.BytesIO(b"long"))
        link = tarfile.TarInfo(LONG.decode() + "2")
        link.type, link.linkname = tarfile.SYMTYPE, LONG.decode()
        archive.addfile(link)
    seen, _ = read(out.getvalue())
    assert seen == {LONG: (b"long", False), LONG + b"2": Symlink(LONG)}


def test_gnu_long_names_apply_to_the_next_member_only() -> None:
    seen, _ = read(tar(Tar(name=b"././@LongLink", kind=b"L", data=LONG + b"\0"), Tar(name=b"short"), Tar(name=b"b")))
    assert list(seen) == [LONG, b"b"]


def test_the_prefix_of_ustar_stands_before_the_name_and_gnu_has_none() -> None:
    seen, _ = read(tar(Tar(name=b"b", prefix=b"a"), Tar(name=b"c", prefix=b"123", magic=b"ustar  \0")))
    assert list(seen) == [b"a/b", b"c"]


def test_pax_records_override_and_times_and_owners_are_ignored() -> None:
    head = pax({b"path": b"p\xc3\xa4th", b"size": b"4", b"mtime": b"1.5", b"uname": b"me", b"comment": b"x"})
    seen, notes = read(tar(head, Tar(name=b"other", data=b"text", raw_size=b"00000000000\0")))
    assert seen == {b"p\xc3\xa4th": (b"text", False)}
    assert notes == []


def test_a_global_header_with_a_comment_is_ignored() -> None:
    seen, _ = read(tar(pax({b"comment": b"0123abc"}, kind=b"g"), Tar(name=b"a")))
    assert list(seen) == [b"a"]


def test_extended_attributes_and_special_modes_are_noted() -> None:
    head = pax({b"SCHILY.xattr.security.capability": b"\x01", b"LIBARCHIVE.xattr.user.a": b"YQ"})
    _, notes = read(tar(head, Tar(name=b"ping", mode=0o4755), folder(b"tmp", 0o1777), Tar(name=b"key", mode=0o600)))
    assert notes == [
        Dropped(b"ping", "attribute SCHILY.xattr.security.capability"),
        Dropped(b"ping", "attribute LIBARCHIVE.xattr.user.a"),
        Dropped(b"ping", "mode 4755, setuid"),
        Dropped(b"tmp", "mode 1777, sticky"),
        Dropped(b"key", "mode 0600"),
    ]


def test_old_archives_without_magic_read_and_a_slash_makes_a_folder() -> None:
    seen, _ = read(tar(Tar(name=b"d/", kind=b"\0", magic=bytes(8), mode=0o755), Tar(name=b"d/f", kind=b"\0")))
    assert seen == {b"d": DIRECTORY, b"d/f": (b"", False)}


def test_a_size_in_base_256_reads() -> None:
    seen, _ = read(tar(Tar(name=b"a", data=b"four", raw_size=b"\x80" + (4).to_bytes(11, "big"))))
    assert seen == {b"a": (b"four", False)}


def test_stripping_drops_the_top_of_paths_and_of_hard_links_not_of_symbolic_ones() -> None:
    seen, _ = read(tar(folder(b"t/"), Tar(name=b"t/a"), hardlink(b"t/b", b"t/a"), symlink(b"t/c", b"a")), strip=1)
    assert seen == {b"": DIRECTORY, b"a": (b"", False), b"b": HardLink(b"a"), b"c": Symlink(b"a")}


def test_an_archive_of_nothing_is_empty() -> None:
    assert read(bytes(10240)) == ({}, [])


@pytest.mark.parametrize(
    ("member", "why"),
    [
        (Tar(name=b"a", kind=b"3"), "a character device"),
        (Tar(name=b"a", kind=b"4"), "a block device"),
        (Tar(name=b"a", kind=b"6"), "a fifo"),
        (Tar(name=b"a", kind=b"S"), "a sparse file"),
        (Tar(name=b"a", kind=b"V"), "a volume header"),
        (Tar(name=b"a", kind=b"Q"), "unknown type 'Q'"),
        (Tar(name=b"/a"), "absolute"),
        (Tar(name=b"../a"), "climbs out"),
        (Tar(name=b""), "without a name"),
        (Tar(name=b"a/"), "named as a folder"),
        (Tar(name=b"."), "named as a folder"),
        (symlink(b"./", b"a"), "named as a folder"),
        (symlink(b"a", b""), "without a target"),
        (hardlink(b"a", b"./a"), "a hard link to itself"),
        (hardlink(b"a", b"../../etc/shadow"), "climbs out"),
        (hardlink(b"a", b"/etc/shadow"), "absolute"),
        (Tar(name=b"a", kind=b"2", link=b"b", data=b"x"), "carries contents"),
        (Tar(name=b"a", kind=b"5", data=b"x"), "carries contents"),
    ],
)
def test_a_member_that_no_archive_may_hold_is_refused_by_name(member: Tar, why: str) -> None:
    text = refusal(tar(member))
    assert why in text
    assert text.startswith("x.tar: " if member.name else "x.tar")


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ({b"path": b"/etc/passwd"}, "absolute"),
        ({b"path": b"a\0b"}, "zero byte"),
        ({b"path": b""}, "without a name"),
        ({b"size": b"-1"}, "a size of"),
        ({b"size": b"9" * 30}, "a size of"),
        ({b"GNU.sparse.major": b"1"}, "a sparse file"),
        ({b"SCHILY.xattr.user.a" + str(n).encode(): b"" for n in range(70)}, "too many"),
    ],
)
def test_a_pax_header_that_says_such_a_thing_is_refused(records: dict[bytes, bytes], why: str) -> None:
    assert why in refusal(tar(pax(records), Tar(name=b"a")))


@pytest.mark.parametrize("key", [b"path", b"linkpath", b"size", b"GNU.sparse.name"])
def test_a_global_header_may_not_rename_every_member(key: bytes) -> None:
    assert "for all members" in refusal(tar(pax({key: b"1"}, kind=b"g"), Tar(name=b"a")))


@pytest.mark.parametrize("data", [b"x", b"4 a=\n", b"99 a=b\n", b"0 a=b\n", b"6 ab\n", b"6 a=bc", b"-1 a=b\n", b"\n"])
def test_a_pax_header_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt, match="pax header"):
        read(tar(Tar(name=b"x", kind=b"x", data=data), Tar(name=b"a")))


def test_an_extended_header_of_gigabytes_is_refused_unread() -> None:
    assert "an extended header of" in refusal(Tar(name=b"x", kind=b"L", size=4 << 30).header())


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "cut short"),
        (b"hello", "cut short"),
        (tar(Tar(name=b"a", data=b"x" * 600))[:1000], "cut short"),
        (tar(Tar(name=b"a"))[:512], "cut short"),
        (tar(Tar(name=b"a"), Tar(name=b"b"), end=b""), "cut short"),
        (b"not a tar archive".ljust(2048, b"!"), "no tar header at byte 0"),
        (tar(Tar(name=b"a"), Tar(name=b"b", checksum=1)), "no tar header at byte 512: its checksum is wrong"),
        (tar(Tar(name=b"a", magic=b"rats!\0\0\0")), "an unknown format"),
        (tar(Tar(name=b"a", raw_size=b"12345678zzz\0")), "not a number"),
        (tar(Tar(name=b"a", raw_size=b"\xff" * 12)), "not a number"),
        (tar(Tar(name=b"a")) + b"junk", "after the end"),
        (tar(Tar(name=b"a")) + tar(Tar(name=b"b")), "after the end"),
        (tar(pax({b"path": b"a"})), "that no member follows"),
    ],
)
def test_damaged_archives_are_refused(data: bytes, why: str) -> None:
    assert why in refusal(data)


def test_a_base_256_size_of_exabytes_is_cut_short_not_allocated() -> None:
    assert "cut short" in refusal(tar(Tar(name=b"a", raw_size=b"\x80" + b"\x7f" + b"\xff" * 10)))


def test_more_members_than_the_limit_are_refused() -> None:
    with pytest.raises(InputErrors) as caught:
        read(tar(*[Tar(name=b"a")] * 4), limits=Limits(entries=3))
    assert "more than 3 members" in said(caught.value)


@pytest.mark.parametrize("form", ["v7", "ustar", "gnu", "oldgnu", "pax"])
def test_archives_of_gnu_tar_read_in_every_format(tmp_path: Path, form: str) -> None:
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    (top / "sub" / "file").write_bytes(b"x" * 3000)
    (top / "run").write_bytes(b"#!")
    (top / "run").chmod(0o755)
    (top / "link").symlink_to("sub/file")
    (top / "other").hardlink_to(top / "run")
    done = subprocess.run(
        ["tar", "-C", str(tmp_path), "--sort=name", f"--format={form}", "-cf", "-", "top"],
        capture_output=True,
        check=True,
    )
    seen, _ = read(done.stdout, strip=1)
    assert seen[b"sub/file"] == (b"x" * 3000, False)
    assert seen[b"link"] == Symlink(b"sub/file")
    assert {seen[b"run"], seen[b"other"]} <= {(b"#!", True), HardLink(b"run"), HardLink(b"other")}
