# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from derive.archives import unpack_deb
from derive.debian.declaration import (
    Account,
    Alternative,
    Excuse,
    Group,
    Replaces,
    RootDeclaration,
    TextFile,
)
from derive.debian.package import UnpackedDeb, load_deb
from derive.debian.root import RootPlan, build_root, compose_root
from derive.errors import InputErrors
from derive.store.local import LocalStore
from derive.store.memory import MemoryStore
from derive.store.protocol import Store
from support.archives import Tar, contents, deb, folder, hardlink, put, said, symlink

PLAIN = RootDeclaration(architecture="amd64")
SCRIPT = b"#!/bin/sh\n"
BASE_FILES = deb(
    folder(b"./"),
    folder(b"./usr/lib/"),
    folder(b"./tmp/", 0o1777),
    symlink(b"./lib", b"usr/lib"),
    symlink(b"./bin", b"usr/bin"),
    Tar(name=b"./etc/debian_version", data=b"13\n"),
    package="base-files",
)
BASE_PASSWD = deb(
    Tar(name=b"./usr/share/base-passwd/passwd.master", data=b"root:*:0:0:root:/root:/bin/bash\n"),
    Tar(name=b"./usr/share/base-passwd/group.master", data=b"root:*:0:\n"),
    package="base-passwd",
)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def loaded(store: Store, *archives: bytes) -> list[UnpackedDeb]:
    return [load_deb(store, unpack_deb(store, put(store, a), name="x.deb").listing, name="x.deb") for a in archives]


def compose(store: Store, *archives: bytes, declaration: RootDeclaration = PLAIN) -> RootPlan:
    return compose_root(store, loaded(store, *archives), declaration)


def build(store: Store, *archives: bytes, declaration: RootDeclaration = PLAIN) -> dict[bytes, object]:
    listing, _ = build_root(store, loaded(store, *archives), declaration)
    return contents(store, listing)


def problems(store: Store, *archives: bytes, declaration: RootDeclaration = PLAIN) -> str:
    found = compose(store, *archives, declaration=declaration).problems
    assert found
    return said(InputErrors(found))


def test_files_shipped_through_a_merging_link_land_behind_it_and_the_link_stays(store: MemoryStore) -> None:
    """As with /lib -> usr/lib and a package that ships ./lib/aarch64-linux-gnu/."""
    library = deb(folder(b"./lib/"), Tar(name=b"./lib/aarch64-linux-gnu/ld.so", data=b"elf"), package="libc6")
    tree = build(store, library, BASE_FILES)
    assert tree[b"lib"] == b"-> usr/lib"
    assert tree[b"usr/lib/aarch64-linux-gnu/ld.so"] == b"elf"
    assert b"/lib/aarch64-linux-gnu/ld.so\n" in tree[b"var/lib/dpkg/info/libc6.list"]  # type: ignore[operator]


def test_without_the_link_the_folder_is_an_ordinary_one(store: MemoryStore) -> None:
    tree = build(store, deb(Tar(name=b"./lib/x", data=b"1"), package="aa"))
    assert tree[b"lib/x"] == b"1"


def test_a_path_through_any_other_link_is_a_problem(store: MemoryStore) -> None:
    one = deb(symlink(b"./usr/share/doc/aa", b"bb"), package="aa")
    two = deb(Tar(name=b"./usr/share/doc/aa/copyright"), package="bb")
    assert "two packages give this path differently" in problems(
        store, one, deb(folder(b"./usr/share/doc/aa"), package="bb")
    )
    assert "/usr/share/doc/aa/copyright: a path that goes through the link" in problems(store, one, two)


def test_a_path_below_a_file_is_a_problem(store: MemoryStore) -> None:
    one, two = deb(Tar(name=b"./a"), package="aa"), deb(Tar(name=b"./a/b"), package="bb")
    assert "/a/b: a path below the file /a" in problems(store, one, two)


def test_the_same_file_from_two_architectures_is_one_file(store: MemoryStore) -> None:
    fields = "Multi-Arch: same\n"
    document = Tar(name=b"./usr/share/doc/libx/copyright", data=b"MIT")
    both = [deb(document, package="libx", architecture=a, fields=fields) for a in ("amd64", "arm64")]
    tree = build(store, *both)
    assert tree[b"usr/share/doc/libx/copyright"] == b"MIT"
    assert tree[b"var/lib/dpkg/arch"] == b"amd64\narm64\n"
    assert b"var/lib/dpkg/info/libx:arm64.list" in tree
    assert b"var/lib/dpkg/info/libx:amd64.list" in tree


ONE = deb(Tar(name=b"./etc/x", data=b"one"), package="one")
TWO = deb(Tar(name=b"./etc/x", data=b"two", mode=0o755), package="two")


def test_a_path_that_two_packages_give_differently_is_a_problem_that_names_both(store: MemoryStore) -> None:
    text = problems(store, ONE, TWO)
    assert "/etc/x: two packages give this path differently" in text
    assert "one:amd64  file of 3 bytes" in text
    assert "two:amd64  executable of 3 bytes" in text


@pytest.mark.parametrize(("winner", "text"), [("one", b"one"), ("two", (b"two", "x"))])
def test_the_declaration_may_say_which_wins_and_the_log_tells(store: MemoryStore, winner: str, text: object) -> None:
    declaration = replace(PLAIN, replaces=(Replaces(path=b"etc/x", package=winner),))
    for pair in ((ONE, TWO), (TWO, ONE)):
        assert build(store, *pair, declaration=declaration)[b"etc/x"] == text
        other = {"one": "two", "two": "one"}[winner]
        assert f"declared: /etc/x is {winner}'s, not {other}'s" in compose(store, *pair, declaration=declaration).log


def test_a_declared_winner_that_gives_nothing_is_a_problem(store: MemoryStore) -> None:
    assert "two packages give" in problems(
        store, ONE, TWO, declaration=replace(PLAIN, replaces=(Replaces(path=b"etc/x", package="three"),))
    )
    unused = replace(PLAIN, replaces=(Replaces(path=b"etc/y", package="one"),))
    assert "replaces./etc/y: no two packages give this path differently" in problems(store, ONE, declaration=unused)


def test_the_same_package_twice_is_a_problem(store: MemoryStore) -> None:
    assert "hello:amd64: the same package twice" in problems(store, deb(version="1"), deb(version="2"))


def test_accounts_come_from_base_passwd_and_the_declaration(store: MemoryStore) -> None:
    declaration = replace(
        PLAIN, accounts=(Account(name="me", uid=1000, gid=1000),), groups=(Group(name="me", gid=1000),)
    )
    tree = build(store, BASE_PASSWD, declaration=declaration)
    assert tree[b"etc/passwd"] == (b"root:*:0:0:root:/root:/bin/bash\nme:*:1000:1000::/nonexistent:/usr/sbin/nologin\n")
    assert tree[b"etc/group"] == b"root:*:0:\nme:*:1000:\n"


def test_a_root_without_accounts_has_no_passwd(store: MemoryStore) -> None:
    assert b"etc/passwd" not in build(store, BASE_FILES)


AWK = Alternative(link=b"usr/bin/awk", target=b"usr/bin/mawk")
MAWK = deb(Tar(name=b"./usr/bin/mawk", data=b"elf", mode=0o755), package="mawk")


def test_an_alternative_is_two_links(store: MemoryStore) -> None:
    tree = build(store, MAWK, declaration=replace(PLAIN, alternatives=(AWK,)))
    assert tree[b"usr/bin/awk"] == b"-> /etc/alternatives/awk"
    assert tree[b"etc/alternatives/awk"] == b"-> /usr/bin/mawk"


def test_an_alternative_that_is_there_or_leads_to_nothing_is_a_problem(store: MemoryStore) -> None:
    lost = Alternative(link=b"usr/bin/cc", target=b"usr/bin/gcc")
    text = problems(store, MAWK, declaration=replace(PLAIN, alternatives=(lost,)))
    assert "alternatives./usr/bin/cc: leads to /usr/bin/gcc, which is not in the root" in text
    awk = deb(Tar(name=b"./usr/bin/awk"), package="awk")
    text = problems(store, MAWK, awk, declaration=replace(PLAIN, alternatives=(AWK,)))
    assert "/usr/bin/awk: a declared path that is there already" in text
    assert "given by awk:amd64" in text


def test_an_alternative_may_lead_through_links(store: MemoryStore) -> None:
    through = Alternative(link=b"usr/bin/awk", target=b"bin/mawk")
    assert build(store, MAWK, BASE_FILES, declaration=replace(PLAIN, alternatives=(through,)))


def test_the_certificate_bundle_is_sorted_and_every_part_ends_its_line(store: MemoryStore) -> None:
    where = b"./usr/share/ca-certificates/mozilla/"
    package = deb(
        Tar(name=where + b"b.crt", data=b"B\n"),
        Tar(name=where + b"a.crt", data=b"A"),
        Tar(name=where + b"README", data=b"no"),
        package="ca-certificates",
    )
    assert build(store, package)[b"etc/ssl/certs/ca-certificates.crt"] == b"A\nB\n"
    assert b"etc/ssl/certs/ca-certificates.crt" not in build(store, BASE_FILES)


def test_declared_files_are_written_and_the_log_says_what_they_replace(store: MemoryStore) -> None:
    files = (TextFile(path=b"etc/shells", text="/bin/sh\n"), TextFile(path=b"etc/debian_version", text="ours\n"))
    declaration = replace(PLAIN, files=files)
    tree = build(store, BASE_FILES, declaration=declaration)
    assert tree[b"etc/shells"] == b"/bin/sh\n"
    assert tree[b"etc/debian_version"] == b"ours\n"
    told = "declared: /etc/debian_version is the declaration's, not base-files:amd64's"
    assert told in compose(store, BASE_FILES, declaration=declaration).log


@pytest.mark.parametrize("path", [b"etc", b"etc/passwd", b"var/lib/dpkg/status"])
def test_a_declared_file_over_a_folder_or_over_what_is_written_here_is_a_problem(
    store: MemoryStore, path: bytes
) -> None:
    declaration = replace(PLAIN, files=(TextFile(path=path, text=""),))
    archives = (deb(folder(b"./etc"), package="aa"), BASE_PASSWD)
    assert "a declared path that is there already" in problems(store, *archives, declaration=declaration)


def test_dpkgs_status_is_sorted_and_says_installed(store: MemoryStore) -> None:
    conffiles = Tar(name=b"./conffiles", data=b"/etc/zz\n")
    last = deb(Tar(name=b"./etc/zz", data=b"z"), package="zz", fields="Section: x\n", control=[conffiles])
    tree = build(store, last, deb(package="aa"))
    assert tree[b"var/lib/dpkg/status"] == (
        b"Package: aa\nStatus: install ok installed\nVersion: 1.0-1\nArchitecture: amd64\nDescription: a test\n\n"
        b"Package: zz\nStatus: install ok installed\nVersion: 1.0-1\nArchitecture: amd64\nSection: x\n"
        b"Description: a test\nConffiles:\n /etc/zz fbade9e36a3f36d3d676c1b808451dd7\n\n"
    )
    assert tree[b"var/lib/dpkg/info/zz.conffiles"] == b"/etc/zz\n"
    assert tree[b"var/lib/dpkg/info/zz.list"] == b"/.\n/etc\n/etc/zz\n"
    assert b"var/lib/dpkg/info/zz.control" not in tree
    assert b"var/lib/dpkg/arch" not in tree


SCRIPTED = deb(
    package="libc6",
    control=[
        Tar(name=b"./postinst", data=SCRIPT, mode=0o755),
        Tar(name=b"./prerm", data=SCRIPT, mode=0o755),
        Tar(name=b"./triggers", data=b"activate-noawait ldconfig\n"),
    ],
)


def test_a_script_without_an_excuse_is_a_problem_that_says_what_to_add(store: MemoryStore) -> None:
    text = problems(store, SCRIPTED)
    assert "libc6:amd64: postinst: a maintainer script that is not run" in text
    assert '"libc6.postinst"' in text
    assert "prerm" not in text


@pytest.mark.parametrize("table", ["covered", "waived"])
@pytest.mark.parametrize("pattern", ["libc6.postinst", "lib*.postinst", "*"])
def test_an_excused_script_is_listed_with_its_reason(store: MemoryStore, table: str, pattern: str) -> None:
    excuse = Excuse(pattern=pattern, reason="no cache")
    declaration = replace(PLAIN, **{table: (excuse,)})  # type: ignore[arg-type]
    plan = compose(store, SCRIPTED, declaration=declaration)
    assert plan.problems == ()
    assert plan.log == (
        f"not run: libc6:amd64 postinst: {table}: no cache",
        "not run: libc6:amd64 prerm",
        "not run: libc6:amd64 triggers",
    )


@pytest.mark.parametrize("table", ["covered", "waived"])
def test_an_excuse_that_matches_nothing_is_a_problem(store: MemoryStore, table: str) -> None:
    excuse = (Excuse(pattern="libc7.*", reason="x"),)
    text = problems(store, deb(), declaration=replace(PLAIN, **{table: excuse}))  # type: ignore[arg-type]
    assert f"{table}.libc7.*: matches no script of these packages" in text


def test_every_dropped_bit_is_listed(store: MemoryStore) -> None:
    su = deb(Tar(name=b"./usr/bin/su", mode=0o4755), hardlink(b"./usr/bin/su2", b"./usr/bin/su"), package="login")
    assert compose(store, su, BASE_FILES).log == (
        "base-files:amd64: dropped mode 1777, sticky: /tmp",
        "login:amd64: dropped mode 4755, setuid: /usr/bin/su",
    )


def test_every_problem_is_said_at_once(store: MemoryStore) -> None:
    with pytest.raises(InputErrors) as caught:
        build(store, ONE, TWO, SCRIPTED, declaration=replace(PLAIN, alternatives=(AWK,)))
    assert len(caught.value.problems()) == 3


def test_the_order_of_the_packages_decides_nothing(store: MemoryStore) -> None:
    archives = (BASE_FILES, BASE_PASSWD, MAWK, deb(Tar(name=b"./lib/x"), package="aa"))
    seen = set()
    for order in itertools.permutations(archives):
        listing, log = build_root(store, loaded(store, *order), PLAIN)
        seen.add((store.add_listing(listing), tuple(log)))
    assert len(seen) == 1


def test_dpkg_itself_finds_the_packages_and_their_files_whole(tmp_path: Path) -> None:
    """The witness is dpkg: it lists the packages of the root, and verifies their checksums and conffiles."""
    sums = Tar(name=b"./md5sums", data=b"fbade9e36a3f36d3d676c1b808451dd7  usr/share/zz\n")
    conffiles = Tar(name=b"./conffiles", data=b"/etc/zz\n")
    fields = "Maintainer: A <a@b.c>\nMulti-Arch: same\n"
    files = (folder(b"./"), Tar(name=b"./etc/zz", data=b"z"), Tar(name=b"./usr/share/zz", data=b"z"))
    archives = [
        deb(*files, package="zz", architecture=a, fields=fields, control=[conffiles, sums]) for a in ("amd64", "arm64")
    ]
    with LocalStore(tmp_path / "store") as store:
        listing, _ = build_root(store, loaded(store, *archives), PLAIN)
        root = store.folder(store.add_listing(listing))

        def dpkg(*arguments: str) -> str:
            admin = f"--admindir={root}/var/lib/dpkg"
            command = ["dpkg", admin, f"--instdir={root}", *arguments]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout

        assert dpkg("--verify") == ""
        assert dpkg("--print-foreign-architectures") == "arm64\n"
        assert "zz:amd64" in dpkg("-S", "/etc/zz")
        assert dpkg("-L", "zz:arm64") == "/.\n/etc\n/etc/zz\n/usr\n/usr/share\n/usr/share/zz\n"
