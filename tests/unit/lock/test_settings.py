# SPDX-License-Identifier: Apache-2.0
"""Reading what people and systems say of mirrors."""

from __future__ import annotations

import pytest

from derive.errors import InputErrors
from derive.lock.settings import (
    AptTarget,
    PipSettings,
    ReleaseOwner,
    debian_archives,
    is_http,
    parse_apt_options,
    parse_config,
    parse_git_urls,
    parse_mirror_list,
    parse_owner,
    parse_pip_config,
    parse_pip_default,
    parse_places,
    parse_targets,
    parse_urls,
    split_security,
)
from derive.net.places import ArchiveFolder, ArchiveSite, Mirror


def archives(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read lines of URL, release, component and, where apt has read the release, its origin and label."""
    found = []
    for line in text.splitlines():
        url, release, component, *owner = line.split("|")
        (target,) = parse_targets(
            f"{url}|{release}|{component}|main/binary-amd64/Packages|/l/x_main_binary-amd64_Packages"
        )
        found.append((target, ReleaseOwner(origin=owner[0], label=owner[1]) if owner else None))
    return debian_archives(found)


def test_variables_list_urls_and_security_is_told_by_its_path() -> None:
    mirrors = parse_urls("http://a/debian/ https://b/debian-security  http://c/debian", "V")
    assert split_security(mirrors) == (
        (Mirror(url="http://a/debian"), Mirror(url="http://c/debian")),
        (Mirror(url="https://b/debian-security"),),
    )


def test_what_http_cannot_fetch_is_refused_by_name() -> None:
    with pytest.raises(InputErrors) as caught:
        parse_urls("http://a file:///b ftp://c", "DERIVE_MIRROR_DEBIAN")
    assert [problem.message for problem in caught.value.problems()] == [
        "not an http or https URL: 'file:///b'",
        "not an http or https URL: 'ftp://c'",
    ]
    assert not is_http("http:///x")


def test_a_debian_machine_names_its_archives() -> None:
    text = (
        "http://a/debian/|bookworm|main|Debian|Debian\n"
        "http://a/debian/|bookworm-updates|main|Debian|Debian\n"
        "http://a/debian-security/|bookworm-security|main|Debian|Debian-Security\n"
        "http://a/backports/|bookworm-backports|main|Debian Backports|Debian Backports\n"
        "http://n/node|nodistro|main|. nodistro|. nodistro\n"
    )
    assert archives(text) == (("http://a/debian",), ("http://a/debian-security",))


def test_an_ubuntu_machine_names_none() -> None:
    text = (
        "http://u/ubuntu/|noble|main|Ubuntu|Ubuntu\n"
        "http://u/ubuntu/|noble-security|main|Ubuntu|Ubuntu\n"
        "http://d/linux/debian|bookworm|stable|Docker|Docker CE\n"
    )
    assert archives(text) == ((), ())


def test_without_release_info_archives_are_known_by_their_shape() -> None:
    text = (
        "http://a/debian/|trixie|main\n"
        "tor+http://a/archive/debian-security/2025/|trixie-security|main\n"
        "http://u/ubuntu/|noble|main\n"
        "http://d/linux/debian|bookworm|stable\n"
    )
    assert archives(text) == (("http://a/debian",), ("http://a/archive/debian-security/2025",))


def test_a_target_names_the_files_of_its_release() -> None:
    line = "http://a/debian/|trixie|main|main/source/Sources|/var/lib/apt/lists/a_dists_trixie_main_source_Sources"
    (target,) = parse_targets(f"{line}\ngarbage\n{line}\n")
    lists = "/var/lib/apt/lists/a_dists_trixie_"
    assert target == AptTarget(url="http://a/debian", release="trixie", component="main", lists=lists)


def test_a_release_says_whose_it_is() -> None:
    text = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nOrigin: Debian\nLabel: Debian-Security\nSuite: stable\n"
    assert parse_owner(text) == ReleaseOwner(origin="Debian", label="Debian-Security")
    assert parse_owner("") == ReleaseOwner(origin="", label="")


def test_the_configuration_takes_one_url_or_several() -> None:
    data = b'[mirrors]\ndebian = "http://a/debian"\npython = ["http://p/simple/", "http://q"]\n[other]\nx = 1\n'
    assert parse_config(data, "c").mirrors == {
        "debian": (Mirror(url="http://a/debian"),),
        "python": (Mirror(url="http://p/simple"), Mirror(url="http://q")),
    }
    assert parse_config(b"", "c").mirrors == {}


def test_every_wrong_key_of_the_configuration_is_told() -> None:
    data = b'[mirrors]\nubuntu = "http://a"\ndebian = 1\npython = ["ftp://x"]\n'
    with pytest.raises(InputErrors) as caught:
        parse_config(data, "c.toml")
    assert [problem.where for problem in caught.value.problems()] == [
        "c.toml: mirrors.debian",
        "c.toml: mirrors.python",
        "c.toml: mirrors.ubuntu",
    ]


@pytest.mark.parametrize("data", [b"[mirrors", b"mirrors = 1", b"\xff"])
def test_a_broken_configuration_is_told(data: bytes) -> None:
    with pytest.raises(InputErrors):
        parse_config(data, "c.toml")


def test_apt_options_are_read() -> None:
    text = 'Acquire "";\nAcquire::http "";\nAcquire::http::Proxy "http://p:3142";\nAPT::Architectures:: "amd64";\n'
    assert parse_apt_options(text)["Acquire::http::Proxy"] == "http://p:3142"


def test_a_mirror_list_is_read_as_apt_does() -> None:
    assert parse_mirror_list("# mine\nhttp://a/debian/\tpriority:1\n\nhttp://b/debian # second\n") == (
        "http://a/debian",
        "http://b/debian",
    )


def test_pips_variables_win_over_its_files() -> None:
    text = (
        ":env:.index-url='http://env/simple/'\n"
        "global.index-url='http://global/simple'\n"
        "global.extra-index-url='http://x/simple\\nfile:///opt/simple'\n"
        "nonsense\n"
        "global.broken='\n"
    )
    assert parse_pip_config(text) == PipSettings(
        index="http://env/simple", extra=("http://x/simple", "file:///opt/simple"), no_index=False
    )
    assert parse_pip_config("global.no-index='true'\n") == PipSettings(index=None, extra=(), no_index=True)
    assert parse_pip_config("install.index-url='http://i'\nglobal.index-url='http://g'\n").index == "http://i"


def test_pips_own_default_is_read_from_its_help() -> None:
    text = "  -i, --index-url <url>  Base URL of the\n     index (default\n     https://h.example/simple). This\n"
    assert parse_pip_default(text) == "https://h.example/simple"
    assert parse_pip_default("no such option") is None


def test_git_is_also_reached_by_its_own_ways() -> None:
    assert parse_git_urls("ssh://git@a/b/ https://c", "V") == (Mirror(url="ssh://git@a/b"), Mirror(url="https://c"))
    assert parse_config(b'[mirrors]\ngit = "file:///srv/git"\n', "c").mirrors == {
        "git": (Mirror(url="file:///srv/git"),)
    }
    with pytest.raises(InputErrors) as caught:
        parse_git_urls("ext::sh", "V")
    assert caught.value.problems()[0].message == "not a URL with one of http, https, ssh, git, file: 'ext::sh'"


def test_archives_are_folders_and_sites() -> None:
    expected = (ArchiveFolder(path="/srv/kept"), ArchiveSite(url="https://a/b"), ArchiveFolder(path="/"))
    assert parse_places("/srv/kept/ https://a/b/ / /srv/kept/", "V") == expected
    text = b'[archives]\nplaces = ["/srv/kept", "https://a/b", "/"]\n'
    assert parse_config(text, "c").archives == expected
    assert parse_config(b'[archives]\nplaces = "/with a blank"\n', "c").archives == (
        ArchiveFolder(path="/with a blank"),
    )


def test_every_wrong_place_and_key_is_told_at_once() -> None:
    text = b'[mirrors]\noci = "registry"\n[archives]\nplaces = ["kept", "ftp://me:secret@a"]\nplace = "/x"\n'
    with pytest.raises(InputErrors) as caught:
        parse_config(text, "c")
    assert [(problem.where, problem.message) for problem in caught.value.problems()] == [
        ("c: archives.place", "unknown key"),
        ("c: archives.places", "neither an absolute folder nor an http or https URL: 'ftp://a'"),
        ("c: archives.places", "neither an absolute folder nor an http or https URL: 'kept'"),
        ("c: mirrors.oci", "not an http or https URL: 'registry'"),
    ]


@pytest.mark.parametrize("text", [b"archives = 1\n", b"[archives]\nplaces = 1\n", b"[archives]\nplaces = [1]\n"])
def test_archives_of_another_type_are_refused(text: bytes) -> None:
    with pytest.raises(InputErrors):
        parse_config(text, "c")


def test_half_an_address_is_no_url() -> None:
    assert not is_http("http://[::1")
