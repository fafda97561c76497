# SPDX-License-Identifier: Apache-2.0
"""Upstreams out of a capsule: a git tree with the proof of its commit, an image of a registry, a file of a hub."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from derive.build.service import evaluate
from derive.canonical import sha256
from derive.capsule.inputs import Contents, Input
from derive.capsule.model import Use
from derive.capsule.probe import Prober
from derive.capsule.read import open_capsule
from derive.derivations.model import Derivation, closure
from derive.lock.mirrors import SystemMirrors
from derive.project import load_project
from derive.store.local import LocalStore
from derive.store.verify import How
from derive.store.verify import verify as check
from support.archives import Tar, tar
from support.capsules import pack
from support.folders import Plain
from support.git_server import Files, GitHttp, Link, Upstream, module_file
from support.hf_server import HfServer, Repo
from support.oci_registry import image, registry
from support.small import Small, small_project

REVISION = "a" * 40

DERIVATIONS = """
[tool-source]
builder = "source"
from = { set = "sources", git = "tool" }

[base]
builder = "source"
from = { set = "sources", oci = "base" }

[model-config]
builder = "source"
from = { set = "sources", huggingface = "model", files = ["*.json"] }
"""

NAMES = ("tool-source", "base", "model-config")


@dataclass(slots=True)
class Upstreams:
    """The small project with upstreams locked and built; where they are served, and their capsule."""

    small: Small
    env: dict[str, str]
    served: Path
    file: Path
    trees: dict[str, str]
    fetches: tuple[Derivation, ...]

    def build(self, name: str, store: Path, *more: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
        ran = self.small.here("build", name, "--store", str(store), *more, env={**self.env, **(env or {})})
        return ran.code, ran.out.strip(), ran.err


@pytest.fixture(scope="module")
def upstreams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstreams]:
    place = tmp_path_factory.mktemp("upstreams")
    with small_project(place) as small, GitHttp(place / "git") as http, HfServer() as hub:
        inner = Upstream(place / "git" / "inner.git")
        at = inner.commit({b"inside": Plain(b"inside\n")})
        tool = Upstream(place / "git" / "tool.git")
        files: Files = {b"greeting": Plain(b"one\n"), b"run": Plain(b"#!/bin/sh\n", executable=True)}
        tool.tag("v1", tool.commit({**files, b".gitmodules": module_file({"sub": "../inner.git"}), b"sub": Link(at)}))
        hub.repos["models/team/model"] = Repo(
            commits={REVISION: {"config.json": b"{}"}}, refs={"main": REVISION}, large=frozenset()
        )
        with registry(place / "registry") as images:
            images.push("team/base", "1", image(tar(Tar(name=b"etc/base", data=b"base\n"))))
            env = {
                "DERIVE_MIRROR_HF": hub.url,
                "DERIVE_MIRROR_OCI": images.url,
                "GIT_CONFIG_GLOBAL": "/dev/null",
            }
            small.write("derivations/upstreams.toml", DERIVATIONS)
            small.write("lock/sources.toml", wish(http.url("tool.git")))
            assert small.here("lock", "sources", env=env).code == 0
            trees = {name: small.here("build", name, env=env).answer for name in NAMES}
            every = {one for name in NAMES for one in closure(evaluate(load_project(small.root), f"drv:{name}", None))}
            fetches = tuple(sorted((one for one in every if one.fixed is not None), key=lambda one: one.id))
            file = place / "kept.tar"
            pack(small.store, contents(fetches), file)
            yield Upstreams(small, env, place / "git" / "tool.git", file, trees, fetches)


@contextmanager
def web_server(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Stay silent: tests read standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def contents(fetches: tuple[Derivation, ...]) -> Contents:
    """Return what a capsule of some fetches holds."""
    inputs = tuple(
        Input(use=Use(kind=one.builder, name=one.name), output=one.fixed) for one in fetches if one.fixed is not None
    )
    return Contents(name="r-1", release=sha256(b"r-1"), platforms=("linux/amd64",), engine=(), inputs=inputs)


def wish(url: str) -> str:
    return f"""
kind = "upstreams"

[git.tool]
url = "{url}"
tag = "v1"
licence = "Apache-2.0"
role = "a tool"
submodules = true

[oci.base]
reference = "team/base:1"
platforms = ["linux/amd64"]
licence = "MIT"

[huggingface.model]
repository = "team/model"
revision = "main"
licence = "MIT"
"""


@pytest.mark.parametrize("name", NAMES)
def test_an_upstream_derives_offline_from_a_capsule(upstreams: Upstreams, tmp_path: Path, name: str) -> None:
    code, _, err = upstreams.build(name, tmp_path / "store", "--offline")
    assert code == 3
    assert "offline, and 1 artifacts are not in the store" in err
    env = {"DERIVE_ARCHIVES": str(upstreams.file)}
    assert upstreams.build(name, tmp_path / "store", "--offline", env=env)[:2] == (0, upstreams.trees[name])
    with LocalStore(tmp_path / "store") as store:  # a commit's tree is proved again
        assert not check(store, How(jobs=1, trees=True)).findings


def test_a_git_server_that_is_gone_is_replaced_by_the_capsule(upstreams: Upstreams, tmp_path: Path) -> None:
    upstreams.served.rename(tmp_path / "away")
    try:
        assert upstreams.build("tool-source", tmp_path / "store")[0] == 3
        code, tree, err = upstreams.build(
            "tool-source", tmp_path / "store", env={"DERIVE_ARCHIVES": str(upstreams.file)}
        )
    finally:
        (tmp_path / "away").rename(upstreams.served)
    assert (code, tree) == (0, upstreams.trees["tool-source"])
    assert "what no mirror serves comes from the archive" in err


def test_a_capsules_folder_behind_a_web_server_serves_a_commit_with_its_proof(
    upstreams: Upstreams, tmp_path: Path
) -> None:
    pack(upstreams.small.store, contents(upstreams.fetches), tmp_path / "kept")
    upstreams.served.rename(tmp_path / "away")
    try:
        with web_server(tmp_path / "kept") as url:
            code, tree, err = upstreams.build("tool-source", tmp_path / "store", env={"DERIVE_ARCHIVES": url})
    finally:
        (tmp_path / "away").rename(upstreams.served)
    assert (code, tree) == (0, upstreams.trees["tool-source"]), err


def test_a_store_that_a_capsule_filled_packs_the_same_bytes(upstreams: Upstreams, tmp_path: Path) -> None:
    for name in NAMES:
        upstreams.build(name, tmp_path / "store", "--offline", env={"DERIVE_ARCHIVES": str(upstreams.file)})
    pack(tmp_path / "store", contents(upstreams.fetches), tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == upstreams.file.read_bytes()


def test_a_tree_that_is_another_commits_is_refused_whatever_the_capsule_says(
    upstreams: Upstreams, tmp_path: Path
) -> None:
    (tool,) = (one for one in upstreams.fetches if one.builder == "fetch-git")
    with open_capsule(upstreams.file) as capsule:
        (document,) = capsule.releases
        (nar,) = document.trees
        proof = document.trees[nar]
        assert proof is not None
        kept = tmp_path / "kept" / "blobs" / "sha256"
        kept.mkdir(parents=True)
        for digest in capsule.layout.blobs():
            (kept / digest.hex).write_bytes(b"".join(capsule.read(digest)))
        text = capsule.small(proof)
    forged = text.replace(b"author", b"Author", 1)
    assert forged != text
    (kept / sha256(forged).hex).write_bytes(forged)
    lying = replace(document, trees={nar: sha256(forged)})
    from derive.capsule.oci import LAYOUT, index_of
    from derive.capsule.whole import whole_of

    whole = whole_of(lying, lambda _: iter(()))
    for digest in whole.blobs:
        if not (kept / digest.hex).exists():
            (kept / digest.hex).write_bytes(b"".join(whole.read(digest)))
    (tmp_path / "kept" / "index.json").write_bytes(index_of(whole.listed))
    (tmp_path / "kept" / "oci-layout").write_bytes(LAYOUT)
    env = {"DERIVE_ARCHIVES": str(tmp_path / "kept")}
    code, _, err = upstreams.build("tool-source", tmp_path / "store", "--offline", env=env)
    assert code == 3
    assert "the proof is of another commit" in err
    assert str(tool.arguments["commit"]) in err


def test_an_archive_with_the_tree_and_no_proof_does_not_serve_a_commit(upstreams: Upstreams, tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "blobs" / "sha256"
    kept.mkdir(parents=True)
    with open_capsule(upstreams.file) as capsule:
        (nar,) = capsule.releases[0].trees
        (kept / nar.hex).write_bytes(b"".join(capsule.read(nar)))
    env = {"DERIVE_ARCHIVES": str(tmp_path / "kept")}
    code, _, err = upstreams.build("tool-source", tmp_path / "store", "--offline", env=env)
    assert code == 3
    assert "offline, and 1 artifacts are not in the store" in err


def test_servers_of_upstreams_are_asked_and_nothing_is_fetched(
    upstreams: Upstreams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from derive.build.fetching import StoreFetch

    for key, value in upstreams.env.items():
        monkeypatch.setenv(key, value)
    every = {one.id for one in upstreams.fetches}
    (tool,) = (one for one in upstreams.fetches if one.builder == "fetch-git")

    def served() -> frozenset[object]:
        mirrors = SystemMirrors(environ=upstreams.env)
        with LocalStore(tmp_path / "store") as store, StoreFetch(mirrors=mirrors) as fetch:
            return frozenset(Prober(fetch.fetcher(store), fetch.upstreams(store), mirrors).served(upstreams.fetches))

    assert served() == every
    shutil.move(upstreams.served, tmp_path / "away")
    try:
        assert served() == every - {tool.id}
    finally:
        shutil.move(tmp_path / "away", upstreams.served)
