# SPDX-License-Identifier: Apache-2.0
"""Locking Debian sets for real: apt against archives on the loopback address, then against the configured one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.errors import Corrupt, HostRefuses, InputErrors, Unavailable, UpstreamGone
from derive.lock.documents import DebianLock
from derive.lock.keep import MoveAll, MoveNames
from derive.lock.mirrors import SystemMirrors
from derive.lock.table import move_rows
from derive.lock.update import Locked
from derive.net.places import FixedMirrors, Mirror
from support.archives import Tar, tar
from support.debian_archive import DEP5, DebianArchive, Key, Package, SourcePackage, signing_key
from support.locking import Project
from support.servers import FaultServer

BASE = Package(name="base", fields="Essential: yes\n")
LIBC = Package(name="libc", version="2.41-1", fields="Multi-Arch: same\n", licence="LGPL-2.1+")
LIBC_ARM = Package(name="libc", version="2.41-1", architecture="arm64", fields="Multi-Arch: same\n")
HELLO = Package(name="hello", version="1:2.10-5+b1", fields="Depends: libc (>= 2), hello-data\n", docs_in="hello-data")
HELLO_ARM = Package(name="hello", version="1:2.10-5", architecture="arm64", fields="Depends: libc, hello-data\n")
DATA = Package(name="hello-data", version="1:2.10-5", architecture="all", licence="GPL-3+", fields="Source: hello\n")
UNUSED = Package(name="unused", architecture="all")
ARCHIVE = (BASE, LIBC, LIBC_ARM, HELLO, HELLO_ARM, DATA, UNUSED)
SOURCE = SourcePackage(
    name="hello",
    version="2.10-5",
    files={
        "hello_2.10.orig.tar.xz": tar(Tar(name=b"hello-2.10/README", data=b"hi")),
        "hello_2.10-5.debian.tar.xz": tar(Tar(name=b"debian/copyright", data=DEP5.format("GPL-3+").encode())),
        "hello_2.10-5.dsc": b"not locked",
    },
)
CLOSURES = """
[closures.run]
architectures = ["amd64", "arm64"]
packages = ["hello"]
[closures.tool]
architectures = ["amd64"]
foreign = ["arm64"]
essential = true
packages = ["libc:arm64"]
[sources]
packages = ["hello"]
"""


@pytest.fixture(scope="module")
def key() -> Iterator[Key]:
    with signing_key() as made:
        yield made


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def archive(server: FaultServer, key: Key) -> DebianArchive:
    made = DebianArchive(server, key)
    made.publish("trixie", ARCHIVE, [SOURCE])
    return made


@pytest.fixture
def security(server: FaultServer, key: Key) -> DebianArchive:
    made = DebianArchive(server, key, root="/debian-security", label="Debian-Security")
    made.publish("trixie-security", [])
    return made


@pytest.fixture
def project(tmp_path: Path, archive: DebianArchive, security: DebianArchive) -> Project:
    mirrors = FixedMirrors(debian_archives=(Mirror(url=archive.url),), security_archives=(Mirror(url=security.url),))
    return Project(tmp_path / "project", debian_wish(archive), mirrors)


def debian_wish(archive: DebianArchive, *, head: str = "", closures: str = CLOSURES) -> str:
    return f'kind = "debian"\nsuite = "trixie"\n{head}\n{archive.keyring_table()}{closures}'


def newer(package: Package, version: str) -> Package:
    return Package(
        name=package.name,
        version=version,
        architecture=package.architecture,
        fields=package.fields,
        licence=package.licence,
        docs_in=package.docs_in,
    )


def replaced(*changes: Package) -> list[Package]:
    moved = {(package.name, package.architecture) for package in changes}
    return [*(package for package in ARCHIVE if (package.name, package.architecture) not in moved), *changes]


def versions(found: Locked) -> dict[str, str]:
    return {f"{entry.name}:{getattr(entry, 'architecture', entry.type)}": entry.version for entry in found.lock.entries}


def test_a_debian_set_is_locked_whole_by_hash_and_without_hosts(project: Project, server: FaultServer) -> None:
    found = project.lock()
    lock = found.lock
    assert isinstance(lock, DebianLock)
    assert versions(found) == {
        "base:amd64": "1.0-1",
        "hello:amd64": "1:2.10-5+b1",
        "hello:arm64": "1:2.10-5",
        "hello-data:all": "1:2.10-5",
        "hello:source": "2.10-5",
        "libc:amd64": "2.41-1",
        "libc:arm64": "2.41-1",
    }
    assert [entry.file for entry in lock.closure("run", "arm64")] == [
        "hello_2.10-5_arm64.deb",
        "hello-data_2.10-5_all.deb",
        "libc_2.41-1_arm64.deb",
    ]
    assert [entry.file for entry in lock.closure("tool", "amd64")] == ["base_1.0-1_amd64.deb", "libc_2.41-1_arm64.deb"]
    hello = lock.closure("run", "amd64")[0]
    assert hello.locator == "pool/main/h/hello/hello_2.10-5+b1_amd64.deb"
    assert (hello.size, hello.sha256) == (len(HELLO.data()), sha256(HELLO.data()))
    assert b"://" not in found.data
    assert server.url.partition("//")[2].encode() not in found.data


def test_licences_come_from_the_packages_also_through_links_to_another(project: Project) -> None:
    lock = project.lock().lock
    assert isinstance(lock, DebianLock)
    assert {entry.name: entry.licence for entry in lock.closure("run", "amd64")} == {
        "hello": "GPL-3+",
        "hello-data": "GPL-3+",
        "libc": "LGPL-2.1+",
    }
    assert lock.source("hello").licence == "GPL-3+"


def test_a_source_is_locked_as_the_files_its_tree_is_made_of(project: Project) -> None:
    lock = project.lock().lock
    assert isinstance(lock, DebianLock)
    assert [item.file for item in lock.source("hello").files] == [
        "hello_2.10-5.debian.tar.xz",
        "hello_2.10.orig.tar.xz",
    ]


def test_locking_twice_gives_the_same_bytes_and_the_second_time_asks_nobody(
    project: Project, server: FaultServer
) -> None:
    first = project.lock()
    asked = len(server.requests)
    assert project.lock().data == first.data
    assert len(server.requests) == asked
    assert project.lock(MoveAll()).data == first.data
    assert len(server.requests) > asked


def test_a_changed_wish_keeps_what_is_locked(project: Project, archive: DebianArchive) -> None:
    project.lock()
    archive.publish("trixie", [*ARCHIVE, newer(LIBC, "2.42-1"), newer(DATA, "1:3-1")], [SOURCE])
    project.wish(debian_wish(archive, closures=CLOSURES.replace('["hello"]', '["hello", "unused"]', 1)))
    found = project.lock()
    assert [row[:4] for row in move_rows(found.moves)] == [("unused", "deb", "-", "1.0-1")]


def test_update_moves_a_name_and_the_packages_of_its_source(project: Project, archive: DebianArchive) -> None:
    project.lock()
    moved = [newer(HELLO, "1:2.12-1"), newer(HELLO_ARM, "1:2.12-1"), newer(DATA, "1:2.12-1"), newer(LIBC, "2.42-1")]
    archive.publish("trixie", [*ARCHIVE, *moved], [SOURCE])
    found = project.lock(MoveNames(frozenset({"hello"})))
    assert [row[:4] for row in move_rows(found.moves)] == [
        ("hello", "deb", "1:2.10-5+b1, 1:2.10-5", "1:2.12-1"),
        ("hello-data", "deb", "1:2.10-5", "1:2.12-1"),
    ]


def test_what_is_superseded_in_the_archive_moves_and_is_told(project: Project, archive: DebianArchive) -> None:
    project.lock()
    archive.publish("trixie", replaced(newer(LIBC, "2.41-2"), newer(LIBC_ARM, "2.41-2")), [SOURCE])
    project.wish(debian_wish(archive) + "# looked at again\n")
    assert project.lock().moves == ()
    project.wish(debian_wish(archive, head='suites = ["trixie-updates"]'))
    archive.publish("trixie-updates", [])
    found = project.lock()
    assert [row[:4] for row in move_rows(found.moves)] == [("libc", "deb", "2.41-1", "2.41-2")]


def test_versions_that_do_not_go_together_any_more_are_found_afresh(project: Project, archive: DebianArchive) -> None:
    project.lock()
    strict = Package(name="hello", version="1:3-1", fields="Depends: libc (>= 3)\n")
    archive.publish("trixie", [*replaced(strict), newer(LIBC, "3.0-1"), newer(LIBC_ARM, "3.0-1")], [SOURCE])
    found = project.lock(MoveNames(frozenset({"hello"})))
    assert versions(found)["libc:amd64"] == "3.0-1"
    assert any("does not go together any more" in line for line in project.notes.lines)


def test_outdated_tells_updates_and_security_and_changes_nothing(
    project: Project, archive: DebianArchive, security: DebianArchive
) -> None:
    project.lock()
    before = (project.root / "lock" / "x.lock.json").read_bytes()
    archive.publish("trixie-updates", [newer(DATA, "1:2.10-6")])
    security.publish("trixie-security", [newer(LIBC, "2.41-1+deb13u1"), newer(HELLO_ARM, "1:2.10-4")])
    assert project.outdated() == [
        ("hello-data", "deb", "1:2.10-5", "1:2.10-6", "trixie-updates", ""),
        ("libc", "deb", "2.41-1", "2.41-1+deb13u1", "trixie-security", "security"),
    ]
    assert (project.root / "lock" / "x.lock.json").read_bytes() == before


def test_outdated_says_what_it_could_not_look_at(project: Project) -> None:
    project.lock()
    assert project.outdated() == []
    assert [line for line in project.notes.lines if line.startswith("trixie-updates was not looked at")]


def test_the_security_suite_is_used_when_the_wish_names_it(
    project: Project, archive: DebianArchive, security: DebianArchive
) -> None:
    security.publish("trixie-security", [newer(LIBC, "2.41-1+deb13u1"), newer(LIBC_ARM, "2.41-1+deb13u1")])
    project.wish(debian_wish(archive, head="security = true"))
    lock = project.lock().lock
    assert isinstance(lock, DebianLock)
    libc = lock.closure("tool", "amd64")[1]
    assert (libc.version, libc.suite) == ("2.41-1+deb13u1", "trixie-security")


def test_names_that_the_suites_lack_are_told_at_their_places(project: Project, archive: DebianArchive) -> None:
    closures = CLOSURES.replace('packages = ["hello"]', 'packages = ["hello", "nosuch"]', 1)
    project.wish(debian_wish(archive, closures=closures.replace('"libc:arm64"', '"libc:arm64=9"')))
    with pytest.raises(InputErrors) as caught:
        project.lock()
    assert {(problem.where, problem.message) for problem in caught.value.problems()} == {
        ("lock/x.toml: closures.run.packages[1]", "no such package in the suites"),
        ("lock/x.toml: closures.tool.packages[0]", "no such version in the suites"),
    }
    project.wish(debian_wish(archive, closures='[sources]\npackages = ["nosuch", {name = "hello", version = "9"}]\n'))
    with pytest.raises(InputErrors) as caught:
        project.lock()
    assert [problem.message for problem in caught.value.problems()] == [
        "no such source package in the suites",
        "no such version in the suites",
    ]


def test_what_cannot_be_installed_is_told_in_apts_words(project: Project, archive: DebianArchive) -> None:
    archive.publish("trixie", [*ARCHIVE, Package(name="broken", fields="Depends: missing-thing\n")])
    project.wish(debian_wish(archive, closures='[closures.run]\narchitectures = ["amd64"]\npackages = ["broken"]\n'))
    with pytest.raises(InputErrors) as caught:
        project.lock()
    (problem,) = caught.value.problems()
    assert problem.where == "lock/x.toml: closures.run"
    assert any("missing-thing" in line for line in problem.detail)


def test_a_suite_signed_by_another_key_is_refused(project: Project, server: FaultServer) -> None:
    with signing_key() as other:
        DebianArchive(server, other, root="/other").publish("trixie", ARCHIVE)
    archives = (Mirror(url=f"{server.url}/other"), Mirror(url=f"{server.url}/debian"))
    project.mirrors = FixedMirrors(debian_archives=archives)
    with pytest.raises(Corrupt, match="not by a key of the locked keyring"):
        project.lock()


def test_a_keyring_of_other_bytes_is_refused(project: Project, archive: DebianArchive) -> None:
    project.wish(debian_wish(archive).replace("size =", "size = 1 #"))
    with pytest.raises(Corrupt):
        project.lock()


def test_an_archive_that_does_not_answer_is_passed_over_and_told(
    project: Project, archive: DebianArchive, server: FaultServer
) -> None:
    project.mirrors = FixedMirrors(debian_archives=(Mirror(url=f"{server.url}/empty"), Mirror(url=archive.url)))
    project.lock()
    assert any("the next archive is tried" in line for line in project.notes.lines)
    project.mirrors = FixedMirrors(debian_archives=(Mirror(url=f"{server.url}/empty"),))
    with pytest.raises(Unavailable, match="could not fetch the archive's indices"):
        project.lock(MoveAll())


def test_a_deb_that_its_index_names_and_no_mirror_serves_is_gone(project: Project, archive: DebianArchive) -> None:
    archive.remove(LIBC.locator)
    with pytest.raises(UpstreamGone, match=r"libc 2\.41-1: no mirror serves pool/main/l/libc/libc_2\.41-1_amd64\.deb"):
        project.lock()


@pytest.mark.network
def test_the_configured_debian_archive_locks_a_real_set(tmp_path: Path) -> None:
    wish = """
kind = "debian"
suite = "trixie"
[keyring]
locator = "pool/main/d/debian-archive-keyring/debian-archive-keyring_2025.1_all.deb"
sha256 = "9ea7778e443144ca490668737a8ab22dd3e748bb99e805e22ec055abeb3c7fac"
size = 179244
member = "usr/share/keyrings/debian-archive-keyring.pgp"
[closures.run]
architectures = ["amd64", "arm64"]
packages = ["hello"]
[sources]
packages = ["perftest"]
"""
    mirrors = SystemMirrors()
    try:
        mirrors.debian()
    except HostRefuses as error:
        pytest.fail(f"{error.message}; {error.hint}")
    project = Project(tmp_path / "project", wish, mirrors)
    found = project.lock()
    assert isinstance(found.lock, DebianLock)
    for architecture in ("amd64", "arm64"):
        names = {entry.name for entry in found.lock.closure("run", architecture)}
        assert {"hello", "libc6", "libgcc-s1", "gcc-14-base"} <= names
    with project.tools() as tools:
        tools.fetcher.fetch_all(entry.wanted() for entry in found.lock.debs)
