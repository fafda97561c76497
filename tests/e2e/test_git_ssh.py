# SPDX-License-Identifier: Apache-2.0
"""Git upstreams through a real sshd: keys, refusals, both versions of git's protocol, submodules beside each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.errors import Unavailable, UpstreamGone
from derive.git.fetch import fetch_git, resolve_git
from derive.git.model import GitPin, GitRequest
from derive.git.program import Session
from derive.git.proof import check_proof, parse_proof
from derive.store.local import LocalStore
from support.folders import Plain
from support.git_server import GitSsh, Link, Upstream, git_ssh, module_file


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitSsh]:
    with git_ssh(tmp_path_factory.mktemp("ssh") / "new") as running:
        yield running


@pytest.fixture(scope="module")
def old_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitSsh]:
    """Run an sshd that passes no wish for a newer version of git's protocol on."""
    with git_ssh(tmp_path_factory.mktemp("ssh") / "old", new_protocol=False) as running:
        yield running


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "group" / "demo.git")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as opened:
        yield opened


@pytest.fixture(autouse=True)
def settings(server: GitSsh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give this person an ssh command of their own, in git's settings."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    file = tmp_path / "gitconfig"
    file.write_text(f'[core]\n\tsshCommand = "{server.command}"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return file


def resolve(store: LocalStore, url: str, **wish: object) -> GitPin:
    request = GitRequest(name="demo", urls=(url,), **wish)  # type: ignore[arg-type]
    return resolve_git(store, request, session=Session(silent_s=20, pause_s=0.01))


def test_a_tag_comes_through_ssh_and_is_proved(store: LocalStore, server: GitSsh, upstream: Upstream) -> None:
    first = upstream.commit({b"a": Plain(b"1")})
    upstream.tag("v1", first)
    upstream.commit({b"a": Plain(b"2")}, parent=first)
    url = server.url(upstream.path)
    pin = resolve(store, url, tag="v1")
    found = fetch_git(store, pin, (url,))
    check_proof(store, store.listing(found.tree), b"".join(store.read_blob(found.proof)), first)
    assert len(parse_proof(b"".join(store.read_blob(found.proof))).tags) == 1


def test_a_commit_that_no_branch_reaches_is_given_by_id(store: LocalStore, server: GitSsh, upstream: Upstream) -> None:
    lost = upstream.commit({b"a": Plain(b"1")})
    upstream.commit({b"b": Plain(b"other history")})
    assert resolve(store, server.url(upstream.path), commit=lost).commit == lost


def test_where_ids_are_refused_it_is_named_until_the_owner_allows_them(
    store: LocalStore, old_server: GitSsh, settings: Path, upstream: Upstream
) -> None:
    settings.write_text(f'[core]\n\tsshCommand = "{old_server.command}"\n')
    lost = upstream.commit({b"a": Plain(b"1")})
    upstream.commit({b"b": Plain(b"other history")})
    url = old_server.url(upstream.path)
    with pytest.raises(UpstreamGone, match=lost):
        resolve(store, url, commit=lost)
    upstream.set("uploadpack.allowAnySHA1InWant", "true")
    assert resolve(store, url, commit=lost).commit == lost


def test_relative_submodules_are_found_beside_it(store: LocalStore, server: GitSsh, upstream: Upstream) -> None:
    sub = Upstream(upstream.path.parent / "sub.git")
    commit = sub.commit({b"x": Plain(b"x")})
    upstream.commit({b"lib": Link(commit), b".gitmodules": module_file({"lib": "../sub.git"})})
    pin = resolve(store, server.url(upstream.path), submodules=True)
    assert [(item.path, item.commit) for item in pin.submodules] == [("lib", commit)]


def test_a_key_that_is_not_known_is_a_refusal_and_nobody_is_asked(
    store: LocalStore, server: GitSsh, upstream: Upstream, settings: Path
) -> None:
    upstream.commit({b"a": Plain(b"1")})
    settings.write_text(f'[core]\n\tsshCommand = "{server.command} -o IdentityFile=none -i /nonexistent"\n')
    text = settings.read_text().replace(f" -i {server.folder / 'user'}", "")
    settings.write_text(text)
    with pytest.raises(Unavailable, match="could not be had") as caught:
        resolve(store, server.url(upstream.path))
    assert "Permission denied" in caught.value.detail[0]
    assert "git asks nobody here" in (caught.value.hint or "")


def test_a_host_that_is_not_known_is_a_refusal(
    store: LocalStore, server: GitSsh, upstream: Upstream, settings: Path
) -> None:
    upstream.commit({b"a": Plain(b"1")})
    known = f"UserKnownHostsFile={server.folder / 'known'}"
    settings.write_text(settings.read_text().replace(known, "UserKnownHostsFile=/dev/null"))
    with pytest.raises(Unavailable, match="could not be had") as caught:
        resolve(store, server.url(upstream.path))
    assert "Host key verification failed" in caught.value.detail[0]


def test_a_repository_that_is_not_there_is_gone(store: LocalStore, server: GitSsh, tmp_path: Path) -> None:
    with pytest.raises(UpstreamGone, match="nobody serves"):
        resolve(store, server.url(tmp_path / "absent.git"))
