# SPDX-License-Identifier: Apache-2.0
"""Locators, mirrors and how URLs are shown."""

from __future__ import annotations

from derive.canonical import Digest
from derive.net.places import (
    ArchiveFolder,
    ArchiveSite,
    DebPath,
    FixedMirrors,
    Locator,
    Mirror,
    Named,
    PlainUrl,
    Wanted,
    WheelFile,
    archive_of,
    archive_url,
    display,
    hide_credentials,
    origin,
)

ZERO = Digest("0" * 64)


def test_only_the_security_suite_is_served_by_the_security_archive() -> None:
    assert archive_of("trixie-security") == "debian-security"
    assert archive_of("trixie-updates") == archive_of("trixie") == "debian"


def test_a_pool_path_is_escaped_in_its_url() -> None:
    mirror = Mirror(url="http://h/debian")
    assert archive_url(mirror, "pool/main/p/p_1+2~3.deb") == "http://h/debian/pool/main/p/p_1%2B2~3.deb"


def test_what_is_shown_has_no_credentials() -> None:
    assert display("https://u:p@h:8080/a/b?token=x#y") == "https://h:8080/a/b"
    assert origin("https://u:p@h:8080/a/b") == "https://h:8080"
    assert hide_credentials("E: Failed http://u:p@h/x and https://h/y@z") == "E: Failed http://h/x and https://h/y@z"


def test_what_is_no_url_is_shown_without_what_may_be_a_password() -> None:
    assert display("http://u:p@[::1") == origin("http://u:p@[::1") == "an unreadable URL"


def test_the_file_name_follows_from_the_locator() -> None:
    def file(locator: Locator) -> str:
        return Wanted(name="n", version="1", locator=locator, sha256=ZERO, size=None).file

    assert file(DebPath(archive="debian", path="pool/main/h/hello/hello_1.deb")) == "hello_1.deb"
    assert file(WheelFile(project="x", file="x-1.whl")) == "x-1.whl"
    assert file(PlainUrl(url="https://h/a/b.tar.gz?x=1")) == "b.tar.gz"
    assert file(PlainUrl(url="https://h/")) == "n"
    assert file(Named(text="library/x@sha256:1", file="x.tar")) == "x.tar"


def test_messages_call_an_artifact_by_name_and_version() -> None:
    locator = Named(text="x", file="x")
    assert Wanted(name="x", version="1", locator=locator, sha256=ZERO, size=None).subject == "x 1"
    assert Wanted(name="x", version="", locator=locator, sha256=ZERO, size=None).subject == "x"


def test_locators_are_told_without_hosts_where_they_have_none() -> None:
    assert str(DebPath(archive="debian-security", path="pool/x")) == "debian-security: pool/x"
    assert str(WheelFile(project="x", file="x-1.whl")) == "x: x-1.whl"
    assert str(PlainUrl(url="https://u:p@h/x")) == "https://h/x"


def test_fixed_mirrors_return_what_they_were_given() -> None:
    one = (Mirror(url="http://a"),)
    mirrors = FixedMirrors(debian_archives=one, security_archives=(), python_indices=one)
    assert mirrors.debian() == mirrors.python() == one
    assert mirrors.security() == mirrors.git() == mirrors.oci() == mirrors.huggingface() == ()
    assert mirrors.archives() == ()


def test_archives_are_shown_without_credentials() -> None:
    assert str(ArchiveFolder(path="/srv/kept")) == "/srv/kept"
    assert str(ArchiveFolder(path="/srv/caf\udce9")) == "/srv/caf\\xe9"
    assert str(ArchiveSite(url="https://u:p@h/kept")) == "https://h/kept"
