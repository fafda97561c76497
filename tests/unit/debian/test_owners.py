# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.archives import unpack_deb
from derive.debian.declaration import Alternative, Excuse, Replaces, RootDeclaration, TextFile
from derive.debian.owners import owners
from derive.debian.package import load_deb
from derive.debian.root import build_root
from derive.store.memory import MemoryStore
from support.archives import Tar, deb, folder, put, symlink

BASE_FILES = deb(symlink(b"./bin", b"usr/bin"), folder(b"./usr/bin/"), folder(b"./srv/"), package="base-files")
PLAIN = RootDeclaration(architecture="amd64")


def owned(*archives: bytes, declaration: RootDeclaration = PLAIN) -> dict[str, str]:
    """Return the owners of a root of some packages, dpkg's own files apart."""
    store = MemoryStore()
    packages = [load_deb(store, unpack_deb(store, put(store, a), name="x").listing, name="x") for a in archives]
    root, _ = build_root(store, packages, declaration)
    found = owners(store, root)
    assert found.keys() <= root.keys()
    return {path.decode(): name for path, name in found.items() if not path.startswith(b"var/lib/dpkg/")}


def program(path: bytes, data: bytes = b"x") -> Tar:
    return Tar(name=path, data=data, mode=0o755)


def test_a_path_shipped_through_a_link_is_owned_where_it_lies_and_the_link_by_nobody() -> None:
    two = deb(folder(b"./bin/"), program(b"./bin/two"), symlink(b"./bin/link", b"two"), package="two")
    assert owned(BASE_FILES, two) == {"usr/bin/two": "two", "usr/bin/link": "two"}


def test_folders_have_no_owner() -> None:
    assert owned(deb(folder(b"./usr/share/empty/"), package="one")) == {}


def test_what_two_packages_ship_has_no_owner_and_what_two_architectures_of_one_ship_is_the_package_s() -> None:
    one, two = (deb(Tar(name=b"./usr/share/x", data=b"x"), package=name) for name in ("one", "two"))
    assert owned(one, two) == {}
    same = [
        deb(
            Tar(name=b"./usr/share/doc/c", data=b"c"),
            Tar(name=f"./usr/lib/{arch}/c.so".encode(), data=arch.encode()),
            package="cc",
            architecture=arch,
            fields="Multi-Arch: same\n",
        )
        for arch in ("amd64", "arm64")
    ]
    assert owned(*same) == {"usr/share/doc/c": "cc", "usr/lib/amd64/c.so": "cc", "usr/lib/arm64/c.so": "cc"}


def test_whose_file_is_kept_where_packages_differ_does_not_make_it_the_owner() -> None:
    one, two = (deb(Tar(name=b"./usr/x", data=name.encode()), package=name) for name in ("one", "two"))
    rule = RootDeclaration(architecture="amd64", replaces=(Replaces(path=b"usr/x", package="two"),))
    assert owned(one, two, declaration=rule) == {}


def test_what_the_declaration_adds_has_no_owner_and_what_it_puts_in_a_package_s_place_has_that() -> None:
    mawk = deb(program(b"./usr/bin/mawk"), Tar(name=b"./etc/hosts", data=b"old"), package="mawk")
    more = RootDeclaration(
        architecture="amd64",
        alternatives=(Alternative(link=b"usr/bin/awk", target=b"usr/bin/mawk"),),
        files=(TextFile(path=b"etc/hosts", text="new"), TextFile(path=b"etc/other", text="x")),
    )
    assert owned(mawk, declaration=more) == {"usr/bin/mawk": "mawk", "etc/hosts": "mawk"}


def test_dpkg_s_files_about_a_package_are_the_package_s_and_those_about_all_are_nobody_s() -> None:
    store = MemoryStore()
    script = Tar(name=b"./postinst", data=b"#!/bin/sh\n", mode=0o755)
    archives = [
        deb(package="a.b", control=[script]),
        deb(package="cc", fields="Multi-Arch: same\n"),
    ]
    packages = [load_deb(store, unpack_deb(store, put(store, a), name="x").listing, name="x") for a in archives]
    excused = RootDeclaration(architecture="amd64", waived=(Excuse(pattern="*", reason="a test"),))
    root, _ = build_root(store, packages, excused)
    info = {path.rpartition(b"/")[2].decode(): name for path, name in owners(store, root).items()}
    assert info == {"a.b.list": "a.b", "a.b.postinst": "a.b", "cc:amd64.list": "cc"}
    assert {b"var/lib/dpkg/status", b"var/lib/dpkg/info/format"} <= root.keys()
