# SPDX-License-Identifier: Apache-2.0
"""What is served now in place of what is gone."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable, Iterator

import pytest

from derive.build.replaced import Replacements, component_of, versions_in
from derive.canonical import Json
from derive.derivations.model import ResolvedDerivation
from derive.errors import UpstreamGone
from derive.net.fetch import Fetcher
from derive.net.http import Settings
from derive.net.places import FixedMirrors, Mirror
from derive.store.memory import MemoryStore
from support.servers import FaultServer, Reply

PACKAGES = b"""\
Package: hello
Architecture: amd64
Version: 2.10-6
Description: says hello
 Version: 9 is not one

Package: hello
Version: 2.10-10

Package: hello-doc
Version: 1
"""
QUICK = Settings(connect_s=1, read_s=0.3, attempts=2, first_delay_s=0.01, longest_delay_s=0.02)
AMD64 = "/debian/dists/trixie/main/binary-amd64/Packages"
GONE = UpstreamGone("hello 2.10-5: no mirror serves it", detail=["tried     there"], hint="configure another")


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def fetch_of(builder: str = "fetch-deb", **changes: Json) -> ResolvedDerivation:
    arguments: dict[str, Json] = {
        "name": "hello",
        "version": "2.10-5",
        "architecture": "amd64",
        "suite": "trixie",
        "locator": "pool/main/h/hello/hello_2.10-5_amd64.deb",
        **changes,
    }
    return ResolvedDerivation(builder=builder, version=1, build="any", host="any", arguments=arguments, inputs={})


def explained(server: FaultServer, *requests: ResolvedDerivation) -> UpstreamGone:
    """Ask for each in turn, and return the last error."""
    mirrors = FixedMirrors(
        debian_archives=(Mirror(url=f"{server.url}/debian"),),
        security_archives=(Mirror(url=f"{server.url}/debian-security"),),
        python_indices=(Mirror(url=f"{server.url}/simple"),),
    )
    with Fetcher(store=MemoryStore(), mirrors=mirrors, settings=QUICK) as fetcher:
        found = Replacements(fetcher, mirrors)
        errors = [found.explained(GONE, request) for request in requests]
    return errors[-1]


@pytest.mark.parametrize(
    ("ending", "pack"), [(".xz", lzma.compress), (".gz", gzip.compress), ("", bytes)], ids=["xz", "gz", "plain"]
)
def test_the_version_served_now_is_named_with_the_command(
    server: FaultServer, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    server.serve(AMD64 + ending, Reply(body=pack(PACKAGES)))
    error = explained(server, fetch_of())
    assert error.message == GONE.message
    assert error.detail == ("tried     there", "now       trixie serves 2.10-10")
    assert error.hint == "run: derive lock --update hello, or configure an archive that still has 2.10-5"


def test_a_version_still_listed_speaks_against_the_mirror(server: FaultServer) -> None:
    server.serve(f"{AMD64}.xz", Reply(body=lzma.compress(PACKAGES)))
    error = explained(server, fetch_of(version="2.10-6"))
    assert error.detail[-1] == "now       trixie still lists 2.10-6"
    assert error.hint == "the mirror is not complete: configure another one, or an archive"


def test_a_package_that_left_the_suite_is_told(server: FaultServer) -> None:
    server.serve(f"{AMD64}.xz", Reply(body=lzma.compress(PACKAGES)))
    error = explained(server, fetch_of(name="bye"))
    assert error.detail[-1] == "now       trixie has no bye any more"


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        (fetch_of(architecture="all"), AMD64),
        (fetch_of(architecture="arm64"), "/debian/dists/trixie/main/binary-arm64/Packages"),
        (fetch_of(locator="pool/contrib/h/x.deb"), "/debian/dists/trixie/contrib/binary-amd64/Packages"),
        (fetch_of("fetch-source"), "/debian/dists/trixie/main/source/Sources"),
        (
            fetch_of(suite="trixie-security", locator="pool/updates/main/h/x.deb"),
            "/debian-security/dists/trixie-security/main/binary-amd64/Packages",
        ),
    ],
    ids=["all", "arm64", "component", "source", "security"],
)
def test_the_index_that_lists_a_package_is_asked(server: FaultServer, request_: ResolvedDerivation, path: str) -> None:
    server.serve(f"{path}.xz", Reply(body=lzma.compress(PACKAGES)))
    assert "serves 2.10-10" in explained(server, request_).detail[-1]


def test_an_index_is_read_once(server: FaultServer) -> None:
    server.serve(f"{AMD64}.xz", Reply(body=lzma.compress(PACKAGES)))
    explained(server, fetch_of(), fetch_of(name="hello-doc"))
    assert server.paths() == [f"{AMD64}.xz"]


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=404),
        Reply(status=500),
        Reply(status=403),
        Reply(hang=True),
        Reply(body=b"not compressed"),
        Reply(body=lzma.compress(PACKAGES)[:-20]),
        Reply(body=lzma.compress(bytes(1 << 25))),
    ],
    ids=["absent", "500", "403", "hang", "no-xz", "half", "one-line"],
)
def test_without_a_readable_index_the_error_stays_as_it_was(
    server: FaultServer, reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("derive.build.replaced._LARGEST_INDEX", 1 << 24)
    server.serve(f"{AMD64}.xz", reply)
    assert explained(server, fetch_of(), fetch_of()) is GONE


def test_the_newest_wheel_of_the_index_is_named(server: FaultServer) -> None:
    files = ["x-1.2-py3-none-any.whl", "x-1.10-py3-none-any.whl", "x-2.0rc1-py3-none-any.whl", "x-3.0.tar.gz"]
    listed = [{"filename": file, "url": file, "yanked": False} for file in files]
    listed.append({"filename": "x-2.1-py3-none-any.whl", "url": "u", "yanked": "broken"})
    page = Reply(
        body=json.dumps({"files": listed}).encode(), headers={"Content-Type": "application/vnd.pypi.simple.v1+json"}
    )
    server.serve("/simple/x/", page)
    error = explained(server, fetch_of("fetch-wheel", name="x", version="1.0"))
    assert error.detail[-1] == "now       the index serves 1.10"


def test_what_has_no_index_stays_as_it_was(server: FaultServer) -> None:
    assert explained(server, fetch_of("fetch-url")) is GONE
    assert explained(server, fetch_of("fetch-wheel")) is GONE


def test_versions_are_read_by_package() -> None:
    assert versions_in(PACKAGES.splitlines(keepends=True)) == {"hello": ("2.10-6", "2.10-10"), "hello-doc": ("1",)}


def test_the_component_is_told_by_the_pool_path() -> None:
    assert component_of("pool/non-free-firmware/a/b.deb") == "non-free-firmware"
    assert component_of("pool/updates/main/a/b.deb") == "main"
