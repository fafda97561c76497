# SPDX-License-Identifier: Apache-2.0
"""What an engine in the outer sandbox is told of this machine's network."""

from __future__ import annotations

from pathlib import Path

from derive.engine.reach import own_network
from derive.net.places import FixedMirrors, Mirror


def test_mirrors_are_told_in_the_variables_that_name_them() -> None:
    mirrors = FixedMirrors(
        debian_archives=(Mirror(url="http://one/debian"),),
        security_archives=(Mirror(url="http://one/debian-security"),),
    )
    assert own_network(mirrors, {}).environment == {
        "DERIVE_MIRROR_DEBIAN": "http://one/debian http://one/debian-security"
    }


def test_proxies_are_told_as_they_are_set() -> None:
    given = {"HTTPS_PROXY": "http://proxy:1", "no_proxy": "localhost", "HOME": "/root"}
    told = own_network(FixedMirrors(), given).environment
    assert told == {"HTTPS_PROXY": "http://proxy:1", "no_proxy": "localhost"}


def test_a_bundle_of_certificates_is_told_where_one_is_set_and_there(tmp_path: Path) -> None:
    bundle = tmp_path / "own.crt"
    assert own_network(FixedMirrors(), {"REQUESTS_CA_BUNDLE": str(bundle)}).certificates is None
    bundle.touch()
    assert own_network(FixedMirrors(), {"REQUESTS_CA_BUNDLE": str(bundle)}).certificates == bundle
    assert own_network(FixedMirrors(), {}).certificates is None
