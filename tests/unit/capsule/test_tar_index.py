# SPDX-License-Identifier: Apache-2.0
"""Where blobs lie in a tar: of ours and of other tools', and in words when it is none."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest

from derive.canonical import sha256
from derive.capsule.tar_index import TarIndex, read_tar_index
from derive.errors import Corrupt

ONE = b"contents of one"
NAME = f"blobs/sha256/{sha256(ONE).hex}"


def info(name: str, kind: bytes = tarfile.REGTYPE, **more: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for key, value in more.items():
        setattr(made, key, value)
    return made


def tar(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.USTAR_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def index(data: bytes) -> TarIndex:
    return read_tar_index(lambda at, size: data[at : at + size], len(data), "c.tar")


@pytest.mark.parametrize("prefix", ["", "./"])
def test_blobs_and_other_files_are_found_where_they_lie(prefix: str) -> None:
    folder = (info(f"{prefix}blobs", tarfile.DIRTYPE), b"")
    data = tar(folder, (info(prefix + NAME), ONE), (info(f"{prefix}index.json"), b"{}"))
    found = index(data)
    at = found.blobs[sha256(ONE)]
    assert data[at.offset : at.offset + at.size] == ONE
    assert found.files.keys() == {"index.json"}


def test_a_size_in_an_extended_header_counts() -> None:
    member = info(NAME, pax_headers={"size": str(len(ONE)), "comment": "x"})
    assert index(tar((member, ONE), form=tarfile.PAX_FORMAT)).blobs[sha256(ONE)].size == len(ONE)


def test_a_tar_that_is_cut_short_is_said_to_be_wherever_it_is_cut() -> None:
    data = tar((info(NAME), ONE), (info("index.json"), b"{}"))
    end = len(data.rstrip(b"\0"))
    for size in (0, 100, 512, 520, 1024, 1500, 2000, end, end + 512):
        with pytest.raises(Corrupt, match="the tar is cut short"):
            index(data[:size])


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (tarfile.SYMTYPE, "a symbolic link in a layout"),
        (tarfile.LNKTYPE, "a hard link in a layout"),
        (tarfile.FIFOTYPE, "a FIFO in a layout"),
        (tarfile.CHRTYPE, "a device in a layout"),
    ],
)
def test_what_could_lead_elsewhere_is_refused_by_what_it_is(kind: bytes, words: str) -> None:
    with pytest.raises(Corrupt) as caught:
        index(tar((info(NAME, kind, linkname="/etc/passwd"), b"")))
    assert words in caught.value.message
    assert caught.value.where == f"c.tar: {NAME}"


def test_the_same_blob_twice_is_refused() -> None:
    with pytest.raises(Corrupt, match="the same file twice"):
        index(tar((info(NAME), ONE), (info(NAME), ONE)))


@pytest.mark.parametrize("field", [b"-0000001000\0", b"0_000001000\0", b"\x80" + bytes(10) + b"\1"])
def test_a_size_that_is_no_octal_number_is_refused(field: bytes) -> None:
    data = bytearray(tar((info(NAME), ONE)))
    data[124:136] = field
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    with pytest.raises(Corrupt, match="not an uncompressed tar"):
        index(bytes(data))


@pytest.mark.parametrize("data", [b"x" * 2048, gzip.compress(bytes(4096), mtime=0)], ids=["text", "gzip"])
def test_what_is_no_uncompressed_tar_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt, match=r"not an uncompressed tar|cut short"):
        index(data)


@pytest.mark.parametrize("name", ["../../evil", "blobs/../../evil", "/etc/evil", ".."])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE])
def test_a_name_that_leads_out_of_the_layout_is_refused_by_whoever_opens_it(name: str, kind: bytes) -> None:
    with pytest.raises(Corrupt, match="a name that leads out of the layout") as refused:
        index(tar((info(NAME), ONE), (info(name, kind), b"")))
    assert str(refused.value.where).rstrip("/") == f"c.tar: {name}"
