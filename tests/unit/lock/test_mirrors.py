# SPDX-License-Identifier: Apache-2.0
"""Where this machine is told that artifacts are served: variables, then the configuration, then apt and pip."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from derive.errors import HostRefuses, InputErrors
from derive.lock.mirrors import SystemMirrors
from derive.net.places import ArchiveFolder, ArchiveSite, Mirror
from derive.net.user import user_config

UBUNTU = ("http://u/ubuntu", "noble", "Ubuntu", "Ubuntu")
DEBIAN = ("http://a/debian", "trixie", "Debian", "Debian")
SECURITY = ("http://a/debian-security", "trixie-security", "Debian", "Debian-Security")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A home, and a path on which apt prints what lies in files beside it."""
    (tmp_path / "bin").mkdir()
    tool(tmp_path, "apt-get", 'cat "$HOME/targets"')
    tool(tmp_path, "apt-config", 'cat "$HOME/options"')
    (tmp_path / "options").touch()
    know(tmp_path)
    return tmp_path


def know(machine: Path, *archives: tuple[str, ...]) -> None:
    """Make apt know these archives: URL, release and, where it has read the release, origin and label."""
    lines = []
    for url, release, *owner in archives:
        lists = f"{machine}/{release}_"
        lines.append(f"{url}/|{release}|main|main/binary-amd64/Packages|{lists}main_binary-amd64_Packages\n")
        if owner:
            Path(f"{lists}InRelease").write_text(f"Hash: SHA256\n\nOrigin: {owner[0]}\nLabel: {owner[1]}\n")
    (machine / "targets").write_text("".join(lines))


def tool(machine: Path, name: str, script: str) -> None:
    path = machine / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def mirrors(machine: Path, **variables: str) -> SystemMirrors:
    environ: Mapping[str, str] = {"HOME": str(machine), "PATH": f"{machine}/bin:/usr/bin:/bin", **variables}
    return SystemMirrors(environ=environ)


def configure(machine: Path, text: str) -> None:
    file = machine / ".config" / "derive" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)


def test_the_variable_wins_over_everything(machine: Path) -> None:
    configure(machine, '[mirrors]\ndebian = "http://c/debian"\n')
    know(machine, DEBIAN)
    found = mirrors(machine, DERIVE_MIRROR_DEBIAN="http://v/debian http://w/debian/ http://v/debian-security")
    assert found.debian() == (Mirror(url="http://v/debian"), Mirror(url="http://w/debian"))
    assert found.security() == (Mirror(url="http://v/debian-security"),)


def test_the_configuration_wins_over_apt_and_apt_fills_what_it_leaves(machine: Path) -> None:
    configure(machine, '[mirrors]\ndebian = ["http://c/debian"]\n')
    know(machine, DEBIAN, SECURITY)
    found = mirrors(machine)
    assert found.debian() == (Mirror(url="http://c/debian"),)
    assert found.security() == (Mirror(url="http://a/debian-security"),)


def test_apt_names_the_archives_of_a_debian_machine_and_their_proxy(machine: Path) -> None:
    know(machine, UBUNTU, DEBIAN, SECURITY)
    (machine / "options").write_text('Acquire::http::Proxy "http://p:3142";\n')
    found = mirrors(machine)
    assert found.debian() == (Mirror(url="http://a/debian", proxy="http://p:3142"),)
    assert found.security() == (Mirror(url="http://a/debian-security", proxy="http://p:3142"),)


def test_a_machine_whose_lists_were_removed_still_names_its_archive(machine: Path) -> None:
    know(machine, DEBIAN[:2])
    assert mirrors(machine).debian() == (Mirror(url="http://a/debian"),)


def test_a_list_of_mirrors_is_followed(machine: Path) -> None:
    (machine / "list").write_text("http://m1/debian/\nhttp://m2/debian\n")
    know(machine, (f"mirror+file:{machine}/list", *DEBIAN[1:]))
    assert mirrors(machine).debian() == (Mirror(url="http://m1/debian"), Mirror(url="http://m2/debian"))


def test_a_machine_without_a_debian_archive_is_told_the_line_to_write(machine: Path) -> None:
    know(machine, UBUNTU)
    with pytest.raises(HostRefuses) as caught:
        mirrors(machine).debian()
    assert caught.value.message == "this machine's apt names no Debian archive"
    assert caught.value.hint == "export DERIVE_MIRROR_DEBIAN=<url of a Debian archive>"


def test_a_machine_without_apt_is_told_the_same(tmp_path: Path) -> None:
    with pytest.raises(HostRefuses):
        SystemMirrors(environ={"HOME": str(tmp_path), "PATH": str(tmp_path)}).debian()


def test_a_missing_security_archive_is_its_own_error(machine: Path) -> None:
    know(machine, DEBIAN)
    with pytest.raises(HostRefuses, match="security archive"):
        mirrors(machine).security()


def test_the_index_of_the_variable_and_of_the_configuration(machine: Path) -> None:
    configure(machine, '[mirrors]\npython = "http://c/simple"\n')
    assert mirrors(machine).python() == (Mirror(url="http://c/simple"),)
    assert mirrors(machine, DERIVE_MIRROR_PYTHON="http://v/simple/").python() == (Mirror(url="http://v/simple"),)


def test_pip_names_its_index_and_folders_of_this_machine_do_not_count(machine: Path) -> None:
    found = mirrors(machine, PIP_INDEX_URL="http://i/simple/", PIP_EXTRA_INDEX_URL="http://e/simple file:///opt/simple")
    assert found.python() == (Mirror(url="http://i/simple"), Mirror(url="http://e/simple", extra=True))


def test_pip_without_an_index_set_has_a_default_of_its_own(machine: Path) -> None:
    found = mirrors(machine, PIP_CONFIG_FILE=os.devnull)
    assert [(mirror.url.startswith("https://"), mirror.extra) for mirror in found.python()] == [(True, False)]


def test_pip_set_to_use_no_index_is_told(machine: Path) -> None:
    with pytest.raises(HostRefuses, match="no package index"):
        mirrors(machine, PIP_NO_INDEX="1").python()


def test_mistakes_in_variables_and_configuration_are_input_errors(machine: Path) -> None:
    with pytest.raises(InputErrors):
        mirrors(machine, DERIVE_MIRROR_DEBIAN="/srv/mirror").debian()
    configure(machine, "[mirrors]\npythom = 1\n")
    with pytest.raises(InputErrors):
        mirrors(machine).debian()


def test_the_configuration_lies_where_xdg_says() -> None:
    assert user_config({"HOME": "/h"}) == Path("/h/.config/derive/config.toml")
    assert user_config({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == Path("/x/derive/config.toml")
    assert user_config({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}) == Path("/h/.config/derive/config.toml")


def test_git_mirrors_are_optional(machine: Path) -> None:
    assert mirrors(machine).git() == ()
    configure(machine, '[mirrors]\ngit = "ssh://git@c/mirrors"\n')
    assert mirrors(machine).git() == (Mirror(url="ssh://git@c/mirrors"),)
    found = mirrors(machine, DERIVE_MIRROR_GIT="http://v/git/ file:///srv/git")
    assert found.git() == (Mirror(url="http://v/git"), Mirror(url="file:///srv/git"))


@pytest.mark.parametrize(
    ("kind", "key", "variable"), [("oci", "oci", "DERIVE_MIRROR_OCI"), ("huggingface", "hf", "DERIVE_MIRROR_HF")]
)
def test_registries_and_endpoints_are_named_by_variable_or_configuration(
    machine: Path, kind: str, key: str, variable: str
) -> None:
    assert getattr(mirrors(machine), kind)() == ()
    configure(machine, f'[mirrors]\n{key} = "http://c"\n')
    assert getattr(mirrors(machine), kind)() == (Mirror(url="http://c"),)
    assert getattr(mirrors(machine, **{variable: "http://v"}), kind)() == (Mirror(url="http://v"),)


def test_the_variable_of_hugging_faces_own_tools_is_asked_last(machine: Path) -> None:
    assert mirrors(machine, HF_ENDPOINT="http://own/").huggingface() == (Mirror(url="http://own"),)
    configure(machine, '[mirrors]\nhf = "http://c"\n')
    assert mirrors(machine, HF_ENDPOINT="http://own/").huggingface() == (Mirror(url="http://c"),)


def test_archives_are_named_by_variable_or_configuration(machine: Path) -> None:
    assert mirrors(machine).archives() == ()
    configure(machine, '[archives]\nplaces = ["/srv/kept", "http://c/kept/"]\n')
    assert mirrors(machine).archives() == (ArchiveFolder(path="/srv/kept"), ArchiveSite(url="http://c/kept"))
    assert mirrors(machine, DERIVE_ARCHIVES="/other").archives() == (ArchiveFolder(path="/other"),)
    with pytest.raises(InputErrors):
        mirrors(machine, DERIVE_ARCHIVES="relative").archives()
