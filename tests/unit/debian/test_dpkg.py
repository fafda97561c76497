# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.archives import unpack_deb
from derive.debian.dpkg import database, info_name
from derive.debian.package import UnpackedDeb, load_deb
from derive.store.memory import MemoryStore
from derive.trees.pack import add_members
from support.archives import Tar, contents, deb, put, symlink


def load(store: MemoryStore, archive: bytes) -> UnpackedDeb:
    return load_deb(store, unpack_deb(store, put(store, archive), name="x").listing, name="x")


def shown(store: MemoryStore, *packages: UnpackedDeb) -> dict[bytes, object]:
    return contents(store, add_members(store, database(store, packages, "arm64")))


def test_only_packages_for_several_architectures_carry_theirs_in_the_name() -> None:
    store = MemoryStore()
    assert info_name(load(store, deb())) == "hello"
    assert info_name(load(store, deb(fields="Multi-Arch: foreign\n"))) == "hello"
    assert info_name(load(store, deb(fields="Multi-Arch: same\n"))) == "hello:amd64"


def test_fields_of_several_lines_and_remarks_of_conffiles_are_written_as_dpkg_reads_them() -> None:
    store = MemoryStore()
    conffiles = Tar(name=b"./conffiles", data=b"/etc/a\nremove-on-upgrade /etc/old\n/etc/link\n")
    fields = "Depends: x\nTag:\n one,\n two\n"
    archive = deb(Tar(name=b"./etc/a", data=b""), symlink(b"./etc/link", b"a"), fields=fields, control=[conffiles])
    assert shown(store, load(store, archive))[b"var/lib/dpkg/status"] == (
        b"Package: hello\nStatus: install ok installed\nVersion: 1.0-1\nArchitecture: amd64\nDepends: x\n"
        b"Tag:\n one,\n two\nDescription: a test\nConffiles:\n /etc/a d41d8cd98f00b204e9800998ecf8427e\n\n"
    )


def test_foreign_architectures_follow_the_native_one() -> None:
    store = MemoryStore()
    packages = [load(store, deb(package=f"p{a}", architecture=a)) for a in ("riscv64", "all", "arm64", "amd64")]
    assert shown(store, *packages)[b"var/lib/dpkg/arch"] == b"arm64\namd64\nriscv64\n"
    assert b"var/lib/dpkg/arch" not in shown(store, packages[1], packages[2])


def test_the_format_of_the_names_is_stated() -> None:
    assert shown(MemoryStore())[b"var/lib/dpkg/info/format"] == b"1\n"
