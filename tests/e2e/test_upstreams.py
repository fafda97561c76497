# SPDX-License-Identifier: Apache-2.0
"""Upstreams from wish to output, each served by a real server on loopback: git, a URL, a registry, a hub."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from derive.store.graph import of_builder
from derive.store.local import LocalStore
from support.archives import Tar, tar
from support.folders import Plain
from support.git_server import Files, GitHttp, Link, Upstream, module_file
from support.hf_server import HfServer, Repo
from support.oci_registry import Registry, image, registry
from support.servers import Reply
from support.small import Small, small_project

REVISION = "a" * 40
TREE: Files = {b"greeting": Plain(b"one\ntwo\nthree\n"), b"run": Plain(b"#!/bin/sh\n", executable=True)}
PICKED: Files = {**TREE, b"greeting": Plain(b"one\ntwo, picked\nthree\n")}

DERIVATIONS = """
[tool-source]
builder = "source"
from = { set = "sources", git = "tool" }

[notes-page]
builder = "unpack"
kind = "tar"
from = { set = "sources", url = "page" }

[base]
builder = "source"
from = { set = "sources", oci = "base" }

[model-config]
builder = "source"
from = { set = "sources", huggingface = "model", files = ["*.json", "nested/*"] }
"""


@dataclass(slots=True)
class Upstreams:
    """The small project, with a set of upstreams, and the servers behind them."""

    small: Small
    http: GitHttp
    tool: Upstream
    hub: HfServer
    images: Registry
    commit: str
    pick: str

    @property
    def env(self) -> Mapping[str, str]:
        return {
            "DERIVE_MIRROR_HF": self.hub.url,
            "DERIVE_MIRROR_OCI": self.images.url,
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }

    def wish(self, *, git: str = 'tag = "v1"', more: str = "", url: str = "page.tar.gz") -> None:
        self.small.write(
            "lock/sources.toml",
            f"""
kind = "upstreams"

[git.tool]
url = "{self.http.url("tool.git")}"
{git}
licence = "Apache-2.0"
role = "a tool"
fork = "{self.http.url("fork.git")}"
track = "main"
submodules = true

[url.page]
url = "{self.small.server.url}/{url}"
version = "1"
licence = "MIT"

[oci.base]
reference = "team/base:1"
platforms = ["linux/amd64"]
licence = "MIT"

[huggingface.model]
repository = "team/model"
revision = "main"
licence = "MIT"
{more}
""",
        )

    def derive(self, *arguments: str) -> str:
        return self.small.here(*arguments, env=self.env).answer

    def lock(self) -> dict[str, dict[str, object]]:
        document = json.loads((self.small.root / "lock/sources.lock.json").read_bytes())
        return {entry["name"]: entry for entry in document["entries"]}


@pytest.fixture
def upstreams(tmp_path: Path) -> Iterator[Upstreams]:
    with (
        small_project(tmp_path) as small,
        GitHttp(tmp_path / "git") as http,
        HfServer() as hub,
        registry(tmp_path / "registry") as images,
    ):
        inner = Upstream(tmp_path / "git" / "inner.git")
        at = inner.commit({b"inside": Plain(b"inside\n")})
        tool = Upstream(tmp_path / "git" / "tool.git")
        tree: Files = {**TREE, b".gitmodules": module_file({"sub": "../inner.git"}), b"sub": Link(at)}
        commit = tool.commit(tree)
        tool.tag("v1", commit)
        pick = tool.commit({**tree, **PICKED}, parent=commit)
        hub.repos["models/team/model"] = Repo(
            commits={REVISION: {"config.json": b"{}", "nested/a": b"a", "weights.bin": b"w" * 1000}},
            refs={"main": REVISION},
            large=frozenset({"weights.bin"}),
        )
        images.push("team/base", "1", image(tar(Tar(name=b"etc/base", data=b"base\n"))))
        page = Reply(body=gzip.compress(tar(Tar(name=b"page", data=b"page\n")), mtime=0))
        small.server.serve("/page.tar.gz", page)
        small.server.serve("/moved/page.tar.gz", page)
        small.write("derivations/upstreams.toml", DERIVATIONS)
        found = Upstreams(small, http, tool, hub, images, commit, pick)
        found.wish()
        yield found


def test_every_upstream_is_locked_built_and_rebuilt_from_the_lock_alone(upstreams: Upstreams) -> None:
    upstreams.derive("lock", "sources")
    entries = upstreams.lock()
    assert entries["tool"]["commit"] == upstreams.commit
    assert entries["model"]["revision"] == REVISION
    assert "127.0.0.1" not in (upstreams.small.root / "lock/sources.lock.json").read_text()
    trees = {}
    for name in ("tool-source", "notes-page", "base", "model-config"):
        trees[name] = upstreams.derive("build", name)
        path = Path(upstreams.derive("build", name, "--path"))
        trees[f"{name} files"] = "\n".join(sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()))
    assert trees["tool-source files"] == ".gitmodules\ngreeting\nrun\nsub/inside"
    assert trees["notes-page files"] == "page"
    assert trees["base files"] == "etc/base"
    assert trees["model-config files"] == "config.json\nnested/a"
    assert upstreams.derive("build", "tool-source", "--offline") == trees["tool-source"]
    other = upstreams.small.here(
        "build", "tool-source", "--store", str(upstreams.small.home / "other"), env=upstreams.env
    )
    assert other.answer == trees["tool-source"]


def test_a_picked_commit_is_applied_on_top_of_the_pinned_one(upstreams: Upstreams) -> None:
    upstreams.wish(git=f'tag = "v1"\npicks = [{{ commit = "{upstreams.pick}", reason = "wanted now" }}]')
    upstreams.derive("lock", "sources")
    path = Path(upstreams.derive("build", "tool-source", "--path"))
    assert (path / "greeting").read_bytes() == b"one\ntwo, picked\nthree\n"
    assert (path / "sub/inside").read_bytes() == b"inside\n"


def test_a_changed_role_fork_or_reason_moves_nothing(upstreams: Upstreams) -> None:
    upstreams.derive("lock", "sources")
    before = upstreams.derive("build", "tool-source")
    upstreams.small.edit("lock/sources.toml", 'role = "a tool"', 'role = "another role"')
    assert upstreams.small.here("lock", "--check", env=upstreams.env).code == 0
    assert upstreams.derive("build", "tool-source", "--offline") == before


def test_an_upstream_that_nothing_asks_to_move_stays_where_it_was_locked(upstreams: Upstreams) -> None:
    upstreams.derive("lock", "sources")
    before = upstreams.lock()
    upstreams.hub.repos["models/team/model"] = Repo(
        commits={REVISION: {"config.json": b"{}"}, "b" * 40: {"config.json": b"{1}"}}, refs={"main": "b" * 40}
    )
    upstreams.wish(url="moved/page.tar.gz")
    upstreams.derive("lock", "sources")
    assert upstreams.lock()["model"] == before["model"]
    upstreams.derive("lock", "sources", "--update", "model")
    assert upstreams.lock()["model"]["revision"] == "b" * 40
    assert upstreams.lock()["tool"] == before["tool"]


def test_what_is_unpinned_is_locked_with_its_reason_and_refused_by_whatever_needs_it(upstreams: Upstreams) -> None:
    known = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"  # of {}
    upstreams.wish()
    upstreams.small.edit(
        "lock/sources.toml",
        'revision = "main"',
        f'revision = "{REVISION}"\nunpinned = "no hub here"\nknown = {{ "config.json" = "{known}" }}',
    )
    upstreams.derive("lock", "sources")
    assert upstreams.lock()["model"]["unpinned"] == "no hub here"
    refused = upstreams.small.here("build", "model-config", env=upstreams.env)
    assert refused.code == 2
    assert "is not pinned" in refused.err
    assert "reason    no hub here" in refused.err
    assert "derive lock sources --update model" in refused.err
    upstreams.small.edit("derivations/upstreams.toml", '["*.json", "nested/*"]', '["config.json"]')
    path = Path(upstreams.derive("build", "model-config", "--path"))
    assert (path / "config.json").read_bytes() == b"{}"
    upstreams.derive("lock", "sources", "--update", "model")
    assert upstreams.lock()["model"].get("unpinned") is None


def test_a_hub_that_serves_another_file_than_the_known_one_is_refused(upstreams: Upstreams) -> None:
    upstreams.small.edit(
        "lock/sources.toml", 'revision = "main"', 'revision = "main"\nknown = { "nested/a" = "%s" }' % ("0" * 64)
    )
    ran = upstreams.small.here("lock", "sources", env=upstreams.env)
    assert ran.code == 3
    assert "nested/a is not the file that the wish knows" in ran.err
    assert not (upstreams.small.root / "lock/sources.lock.json").exists()


def test_watch_tells_what_moved_and_remembers_what_was_seen(upstreams: Upstreams) -> None:
    watched = Upstream(upstreams.http.root / "read.git")
    first = watched.commit(TREE)
    watched.tag("v1.0", first)
    upstreams.wish(
        more=f'[watch.reading]\nurl = "{upstreams.http.url("read.git")}"\nrole = "ideas"\nsince = "2026-11-30"'
    )
    upstreams.derive("lock", "sources")
    ran = upstreams.small.here("lock", "watch", env=upstreams.env)
    assert ran.code == 1
    assert "never" in ran.out
    upstreams.derive("lock", "watch", "sources", "--seen")
    assert upstreams.small.here("lock", "watch", env=upstreams.env).code == 0
    assert upstreams.small.here("lock", "--check", env=upstreams.env).code == 0
    second = watched.commit(PICKED, parent=first)
    watched.tag("v1.1", second)
    upstreams.tool.tag("v2", upstreams.pick)
    ran = upstreams.small.here("lock", "watch", "--json", env=upstreams.env)
    rows = {row["name"]: row for row in json.loads(ran.out)["body"]["upstreams"]}
    assert ran.code == 1
    assert (rows["reading"]["seen"], rows["reading"]["now"]) == (first, second)
    assert rows["reading"]["newer_tags"] == ["v1.1"]
    assert rows["tool"]["newer_tags"] == ["v2"]
    outdated = upstreams.small.here("lock", "sources", "--outdated", env=upstreams.env)
    assert outdated.code == 1
    assert "v2" in outdated.out


def test_a_tag_that_was_moved_is_said_when_it_is_locked_again_and_one_that_is_gone_when_it_is_watched(
    upstreams: Upstreams,
) -> None:
    upstreams.derive("lock", "sources")
    upstreams.tool.tag("v1", upstreams.pick)
    ran = upstreams.small.here("lock", "sources", "--update", "tool", env=upstreams.env)
    assert f"its tag v1 led to {upstreams.commit[:12]}" in ran.err
    upstreams.tool.git("tag", "-d", "v1")
    assert "its tag is gone!" in upstreams.small.here("lock", "watch", env=upstreams.env).out


def test_no_password_in_a_url_is_ever_shown(upstreams: Upstreams) -> None:
    upstreams.small.edit("lock/sources.toml", 'url = "http://', 'url = "http://me:s3cr3t@')
    for arguments in (["lock", "sources"], ["show"], ["lock", "--check"], ["lock", "watch"]):
        ran = upstreams.small.here(*arguments, env=upstreams.env)
        assert ran.code == 2
        assert "s3cr3t" not in ran.err + ran.out


def test_watch_names_an_upstream_that_does_not_answer_and_tells_the_others(upstreams: Upstreams) -> None:
    upstreams.wish(more='[watch.gone]\nurl = "http://127.0.0.1:9/gone.git"\nrole = "ideas"\nsince = "2026-11-30"')
    upstreams.derive("lock", "sources")
    ran = upstreams.small.here("lock", "watch", env=upstreams.env)
    assert ran.code == 3
    assert "1 of 2 upstreams did not answer\n       gone: " in ran.err
    assert "the same" in ran.out


def test_wrong_upstreams_are_told_all_at_once_with_their_keys(upstreams: Upstreams) -> None:
    upstreams.small.write(
        "lock/sources.toml",
        """
kind = "upstreams"
[git.a]
url = "/somewhere"
tag = "v1"
branch = "main"
licence = "no such licence"
[url.b]
url = "ftp://example.org/x"
version = "1"
licence = "MIT"
[oci.c]
reference = "registry.example.org/x:1"
platforms = []
licence = "MIT"
[huggingface.d]
repository = "not a repository"
licence = "MIT"
""",
    )
    ran = upstreams.small.here("lock", "sources", env=upstreams.env)
    assert ran.code == 2
    for key in (
        "git.a.url",
        "git.a.licence",
        "url.b.url",
        "oci.c.reference",
        "oci.c.platforms",
        "huggingface.d.repository",
    ):
        assert f"lock/sources.toml: {key}" in ran.err, ran.err


def test_every_git_tree_in_a_store_is_proved_offline_to_be_its_commit_and_a_wrong_one_is_found(
    upstreams: Upstreams,
) -> None:
    upstreams.derive("lock", "sources")
    upstreams.derive("build", "tool-source")
    assert "1 git tree proved" in upstreams.derive("store", "verify", "--trees")
    with LocalStore(upstreams.small.store) as store:
        (fetch,) = of_builder(store.database, "fetch-git")
        other = json.dumps(fetch.document, separators=(",", ":")).replace(upstreams.commit, upstreams.pick)
        with store.database.cursor() as cursor:
            cursor.execute("UPDATE derivations SET document = ? WHERE id = ?", (other, fetch.id.hex))
    found = upstreams.small.here("store", "verify", "--trees", env=upstreams.env)
    assert found.code == 1
    assert f"not proved to be commit {upstreams.pick[:12]}" in found.out


def test_what_locking_fetched_itself_is_not_fetched_again_and_a_moved_url_is(upstreams: Upstreams) -> None:
    upstreams.derive("lock", "sources")
    upstreams.small.server.requests.clear()
    upstreams.derive("build", "notes-page", "--offline")
    upstreams.derive("build", "tool-source", "--offline")
    assert "/page.tar.gz" not in upstreams.small.server.paths()
    upstreams.wish(url="moved/page.tar.gz")
    upstreams.derive("lock", "sources")
    assert upstreams.small.server.paths().count("/moved/page.tar.gz") == 1
