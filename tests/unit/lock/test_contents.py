# SPDX-License-Identifier: Apache-2.0
"""What artifacts say of themselves."""

from __future__ import annotations

import io
import tarfile
import zipfile
from typing import Literal

import pytest

from derive.canonical import Digest
from derive.errors import Corrupt
from derive.lock.contents import (
    UNSTATED,
    DocFolder,
    deb_member,
    doc_folder,
    metadata_of_wheel,
    open_blob,
    open_spans,
    packaging_file,
    source_licence,
    wheel_facts,
)
from derive.store.memory import MemoryStore

DEP5 = b"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: Expat\n"


def tar(members: dict[str, bytes | str], *, compression: Literal["xz", "gz"] = "xz") -> bytes:
    """Make a tarball; text values are link targets."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz" if compression == "xz" else "w:gz") as archive:
        for name, value in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(value, str):
                info.type, info.linkname = tarfile.SYMTYPE, value
                archive.addfile(info)
            else:
                info.size = len(value)
                archive.addfile(info, io.BytesIO(value))
    return out.getvalue()


def deb(members: dict[str, bytes | str]) -> bytes:
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": tar({"./control": b"Package: x\n"}),
        "data.tar.xz": tar(members),
    }
    out = b"!<arch>\n"
    for name, data in parts.items():
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    return out


def stored(store: MemoryStore, data: bytes) -> Digest:
    with store.blob_writer() as writer:
        writer.write(data)
        return writer.commit()


def test_a_file_of_a_deb_is_read_through_links() -> None:
    store = MemoryStore()
    digest = stored(store, deb({"./usr/share/keyrings/k.pgp": b"keys", "./usr/share/keyrings/k.gpg": "k.pgp"}))
    assert deb_member(store, digest, "usr/share/keyrings/k.pgp") == b"keys"
    assert deb_member(store, digest, "usr/share/keyrings/k.gpg") == b"keys"


def test_what_is_no_deb_or_lacks_the_file_is_corrupt() -> None:
    store = MemoryStore()
    with pytest.raises(Corrupt, match=r"is not a \.deb"):
        deb_member(store, stored(store, b"not an archive at all"), "x")
    with pytest.raises(Corrupt, match="has no file usr/x"):
        deb_member(store, stored(store, deb({"./usr/y": b""})), "usr/x")


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"./usr/share/doc/x/copyright": DEP5}, DocFolder(copyright=DEP5, elsewhere=None)),
        ({"./usr/share/doc/x": "x-base"}, DocFolder(copyright=None, elsewhere="x-base")),
        ({"./usr/share/doc/x/copyright": "../x-common/copyright"}, DocFolder(copyright=None, elsewhere="x-common")),
        ({"./usr/bin/x": b""}, DocFolder(copyright=None, elsewhere=None)),
    ],
)
def test_the_documentation_folder_tells_or_points_elsewhere(
    members: dict[str, bytes | str], expected: DocFolder
) -> None:
    store = MemoryStore()
    assert doc_folder(store, stored(store, deb(members)), "x") == expected


def test_an_unreadable_deb_has_no_documentation() -> None:
    store = MemoryStore()
    whole = deb({"./usr/share/doc/x/copyright": DEP5})
    for broken in (b"", b"!<arch>\n", whole[: len(whole) // 2], b"x" * 500):
        assert doc_folder(store, stored(store, broken), "x") == DocFolder(copyright=None, elsewhere=None)


def test_the_licences_of_a_source_are_in_its_debian_folder() -> None:
    store = MemoryStore()
    assert source_licence(store, stored(store, tar({"debian/copyright": DEP5}))) == "Expat"
    assert source_licence(store, stored(store, tar({"x-1/debian/copyright": DEP5}, compression="gz"))) == "Expat"
    assert source_licence(store, stored(store, tar({"debian/copyright": b"free"}))) == UNSTATED
    assert source_licence(store, stored(store, tar({"a/b/c/debian/copyright": DEP5}))) == UNSTATED
    assert source_licence(store, stored(store, b"junk")) == UNSTATED


def test_the_packaging_is_in_debian_tar_or_in_a_native_tarball() -> None:
    assert packaging_file(["x_1-1.debian.tar.xz", "x_1.orig.tar.gz", "x_1.orig.tar.gz.asc"]) == "x_1-1.debian.tar.xz"
    assert packaging_file(["x_1.tar.xz"]) == "x_1.tar.xz"
    assert packaging_file(["x_1.orig.tar.gz", "x_1-1.diff.gz"]) is None


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("License-Expression: MIT OR Apache-2.0\nLicense: ignored\n", "MIT OR Apache-2.0"),
        ("License: BSD 3-Clause\n", "BSD 3-Clause"),
        (
            "License: Copyright (c)\n        All rights\nClassifier: License :: OSI Approved :: MIT License\n",
            "MIT License",
        ),
        ("Classifier: License :: OSI Approved\nClassifier: License :: Public Domain\n", "Public Domain"),
        ("License: UNKNOWN\n", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_wheel_states_its_licence_in_several_ways(text: str, licence: str) -> None:
    facts = wheel_facts(f"Metadata-Version: 2.1\nName: x\nVersion: 1\n{text}".encode())
    assert facts.licence == licence
    assert facts.requires_python is None


def test_a_wheel_states_the_pythons_it_needs() -> None:
    assert wheel_facts(b"Metadata-Version: 2.1\nName: x\nRequires-Python: >=3.9\n").requires_python == ">=3.9"


def wheel(name: str = "x-1.dist-info/METADATA") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("x/__init__.py", "")
        archive.writestr("vendored/x-1.dist-info/METADATA", "wrong")
        archive.writestr(name, "Name: x")
    return out.getvalue()


def test_the_metadata_of_a_wheel_is_its_own() -> None:
    store = MemoryStore()
    with open_blob(store, stored(store, wheel())) as file:
        assert metadata_of_wheel(file) == b"Name: x"


def test_a_wheel_without_metadata_is_corrupt() -> None:
    store = MemoryStore()
    for data in (wheel("x/METADATA"), b"", b"PK nonsense"):
        with open_blob(store, stored(store, data)) as file, pytest.raises(Corrupt, match="not a wheel"):
            metadata_of_wheel(file)


def test_of_a_remote_wheel_only_spans_are_read() -> None:
    data = wheel()
    asked: list[tuple[int, int]] = []

    def read(offset: int, count: int) -> bytes:
        asked.append((offset, count))
        return data[offset : offset + count]

    with open_spans(len(data), read, 64) as file:
        assert metadata_of_wheel(file) == b"Name: x"
    assert all(offset >= 0 and offset + count <= len(data) for offset, count in asked)
