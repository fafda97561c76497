# SPDX-License-Identifier: Apache-2.0
"""Debian's indices and copyright files."""

from __future__ import annotations

import pytest

from derive.canonical import Digest
from derive.lock.documents import SourceFile
from derive.lock.records import RecordError, binaries, copyright_licence, paragraph, sources

A = "a" * 64
PACKAGES = f"""Package: hello
Version: 2.10-5
Installed-Size: 1
Architecture: amd64
Depends: libc6 (>= 2.34)
Description: a greeting
Multi-Arch: foreign
Filename: pool/main/h/hello/hello_2.10-5_amd64.deb
Size: 53000
SHA256: {A}

Package: libx
Source: hello (2.10-4)
Version: 1:1-1+b1
Architecture: all
Multi-Arch: no
Filename: pool/main/h/hello/libx_1-1_all.deb
Size: 5
SHA256: {A}

Package: other
Version: 1
"""
SOURCES = f"""Package: hello
Binary: hello
Version: 2.10-5
Directory: pool/main/h/hello
Files:
 00000000000000000000000000000000 1 hello_2.10-5.dsc
Checksums-Sha256:
 {A} 1 hello_2.10-5.dsc
 {"b" * 64} 2 hello_2.10.orig.tar.gz
 {"c" * 64} 3 hello_2.10-5.debian.tar.xz
"""
DEP5 = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: x

Files: *
Copyright: someone
License: GPL-2+

Files: debian/*
License: Expat
 Permission is granted
 .
 and so on

License: GPL-2+
 On Debian systems see
"""


def in_pieces(text: str, size: int) -> list[bytes]:
    data = text.encode()
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_records_are_found_whatever_the_pieces(size: int) -> None:
    hello, libx = binaries(in_pieces(PACKAGES, size), {"hello", "libx"})
    assert (hello.name, hello.version, hello.architecture, hello.size) == ("hello", "2.10-5", "amd64", 53000)
    assert (hello.source, hello.multi_arch, hello.sha256) == ("hello", "foreign", Digest(A))
    assert (libx.source, libx.multi_arch, libx.version) == ("hello", None, "1:1-1+b1")


def test_a_record_without_a_hash_is_refused() -> None:
    with pytest.raises(RecordError, match="other"):
        list(binaries([PACKAGES.encode()], {"other"}))


def test_a_source_is_what_its_tree_is_unpacked_from() -> None:
    (found,) = sources([SOURCES.encode()], {"hello"})
    assert found.files == (
        SourceFile(
            file="hello_2.10-5.debian.tar.xz",
            locator="pool/main/h/hello/hello_2.10-5.debian.tar.xz",
            size=3,
            sha256=Digest("c" * 64),
        ),
        SourceFile(
            file="hello_2.10.orig.tar.gz",
            locator="pool/main/h/hello/hello_2.10.orig.tar.gz",
            size=2,
            sha256=Digest("b" * 64),
        ),
    )


def test_a_source_record_without_hashes_is_refused() -> None:
    with pytest.raises(RecordError):
        list(sources([b"Package: hello\nVersion: 1\nDirectory: d\n"], {"hello"}))


def test_a_paragraph_keeps_its_continuations() -> None:
    assert paragraph("# c\nA: 1\n x\n\ty\nb-C:2") == {"a": "1\nx\ny", "b-c": "2"}


def test_a_machine_readable_copyright_names_its_licences_once_and_sorted() -> None:
    assert copyright_licence(DEP5.encode()) == "Expat, GPL-2+"
    assert copyright_licence(DEP5.replace("\n", "\r\n").encode()) == "Expat, GPL-2+"


@pytest.mark.parametrize("text", ["", "This package was debianized by\n\nLicense: GPL\n", "Format: x\n\nFiles: *\n"])
def test_any_other_copyright_file_names_none(text: str) -> None:
    assert copyright_licence(text.encode()) is None
