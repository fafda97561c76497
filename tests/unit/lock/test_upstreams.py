# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from derive.canonical import Digest, sha256
from derive.derivations.upstreams import fitting
from derive.errors import InputErrors
from derive.git.model import GitPin, SubmodulePin
from derive.huggingface.model import HfFile
from derive.images.oci import Descriptor
from derive.lock.documents import render_lock
from derive.lock.read import parse_lock, require_lock
from derive.lock.upstreams.entries import (
    GitEntry,
    HuggingFaceEntry,
    OciEntry,
    Pick,
    UpstreamsLock,
    UrlEntry,
    WatchEntry,
)
from derive.lock.upstreams.watch import Watched, seen_now
from derive.lock.upstreams.wishes import UpstreamsWish
from derive.lock.wishes import parse_wish, require_wish, wish_digest
from derive.oci.model import OciImage, OciPin

COMMIT, OTHER = "a" * 40, "b" * 40
ASKED = sha256(b"asked")
WISH = f"""
kind = "upstreams"

[git.nccl]
url = "https://example.org/nccl.git"
tag = "v1"
licence = "Apache-2.0"
submodules = true
picks = [{{ commit = "{COMMIT}", reason = "soon released" }}]

[url.page]
url = "https://example.org/page.tar.gz"
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
"""

BLOB = Descriptor(media_type="application/vnd.oci.image.layer.v1.tar+gzip", digest=sha256(b"layer"), size=3)
LOCK = UpstreamsLock(
    set="sources",
    wish=sha256(b"wish"),
    upstreams=(
        OciEntry(
            name="base",
            version="1",
            licence="MIT",
            asked=ASKED,
            repository="team/base",
            pin=OciPin(
                repository="team/base",
                tag="1",
                index=None,
                images=(OciImage(platform="linux/amd64", manifest=BLOB, config=BLOB, layers=(BLOB,)),),
            ),
        ),
        HuggingFaceEntry(
            name="model",
            version=COMMIT[:12],
            licence="MIT",
            asked=ASKED,
            repository="team/model",
            contents="model",
            revision=COMMIT,
            files=(HfFile(path="a", size=1, sha256=sha256(b"a"), blob_id=OTHER),),
            known={"a": sha256(b"a")},
        ),
        GitEntry(
            name="nccl",
            version="v1",
            licence="Apache-2.0",
            asked=ASKED,
            commit=COMMIT,
            pin=GitPin(
                name="nccl",
                commit=COMMIT,
                tree=OTHER,
                nar=sha256(b"nar"),
                tag="v1",
                submodules=(SubmodulePin(path="ext/lib", commit=OTHER, tree=COMMIT),),
                size=7,
                lfs=("big",),
            ),
            picks=(Pick(commit=OTHER, patch=b"--- a/x\n+++ b/x\n\xff\n"),),
        ),
        UrlEntry(name="page", version="1", licence="MIT", asked=ASKED, file="page.tar.gz", size=9, sha256=sha256(b"p")),
    ),
    watched=(WatchEntry(name="reading", branch="main", commit=COMMIT, tag="v1.0"),),
)


def wish(text: str = WISH) -> UpstreamsWish:
    found = require_wish(text.encode(), "lock/sources.toml")
    assert isinstance(found, UpstreamsWish)
    return found


def problems(old: str, new: str) -> list[str]:
    found, told = parse_wish(WISH.replace(old, new, 1).encode(), "lock/sources.toml")
    assert found is None
    return [problem.where.removeprefix("lock/sources.toml: ") for problem in told]


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('url = "https://example.org/nccl.git"', 'url = "/local/folder"', "git.nccl.url"),
        ('url = "https://example.org/nccl.git"', 'url = "https://me:secret@example.org/x.git"', "git.nccl.url"),
        ('url = "https://example.org/nccl.git"', 'url = "ext::sh -c id"', "git.nccl.url"),
        ('tag = "v1"', 'tag = "../x"', "git.nccl.tag"),
        ('tag = "v1"', 'tag = "v1"\nbranch = "main"', "git.nccl"),
        ('tag = "v1"', 'tag = "v1"\ncommit = "abc"', "git.nccl.commit"),
        ("submodules = true", 'submodule-urls = { x = "https://example.org/x.git" }', "git.nccl"),
        ('licence = "Apache-2.0"', 'licence = "free for all"', "git.nccl.licence"),
        ('reason = "soon released"', 'reason = ""', "git.nccl.picks[0].reason"),
        ('url = "https://example.org/page.tar.gz"', 'url = "file:///page"', "url.page.url"),
        ('reference = "team/base:1"', 'reference = "example.org/team/base:1"', "oci.base.reference"),
        ('platforms = ["linux/amd64"]', "platforms = []", "oci.base.platforms"),
        ('repository = "team/model"', 'repository = "../model"', "huggingface.model.repository"),
        ('revision = "main"', 'revision = "main"\nknown = { a = "x" }', "huggingface.model.known.a"),
        ('revision = "main"', "", "huggingface.model"),
        ("[url.page]", "[url.nccl]", ""),
        ("[url.page]", '[url."A B"]', ""),
    ],
)
def test_what_no_upstream_can_be_is_told_with_its_key(old: str, new: str, where: str) -> None:
    found = problems(old, new)
    assert [place for place in found if place in (where, "lock/sources.toml")], found


def test_ssh_and_scp_urls_name_repositories() -> None:
    for url in ("ssh://git@example.org/x.git", "git@example.org:team/x.git", "git://example.org/x"):
        assert wish(WISH.replace("https://example.org/nccl.git", url)).git["nccl"].url == url


@pytest.mark.parametrize(
    "more",
    ['role = "x"', 'fork = "https://example.org/fork.git"', 'track = "main"', "# a comment"],
)
def test_who_an_upstream_is_to_us_is_not_in_the_digest(more: str) -> None:
    changed = WISH.replace('tag = "v1"', f'tag = "v1"\n{more}', 1)
    assert wish_digest(wish(changed)) == wish_digest(wish())


def test_the_watch_list_and_reasons_are_not_in_the_digest() -> None:
    watched = f'{WISH}\n[watch.x]\nurl = "https://example.org/x.git"\nrole = "ideas"\nsince = "2026-11-30"\n'
    assert wish_digest(wish(watched)) == wish_digest(wish())
    assert wish_digest(wish(WISH.replace("soon released", "needed"))) == wish_digest(wish())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('tag = "v1"', 'tag = "v2"'),
        ("https://example.org/nccl.git", "https://example.org/other.git"),
        (f'commit = "{COMMIT}"', f'commit = "{OTHER}"'),
        ('licence = "Apache-2.0"', 'licence = "MIT"'),
        ('tag = "v1"', 'tag = "v1"\nunpinned = "not reachable"'),
        ('revision = "main"', 'revision = "next"'),
    ],
)
def test_what_is_asked_is_in_the_digest(old: str, new: str) -> None:
    assert wish_digest(wish(WISH.replace(old, new, 1))) != wish_digest(wish())


def test_a_lock_comes_back_whole_and_names_no_host() -> None:
    data = render_lock(LOCK)
    assert require_lock(data, "lock/sources.lock.json") == LOCK
    assert b"://" not in data
    assert render_lock(require_lock(data, "lock/sources.lock.json")) == data


def edited(change: Callable[[dict[str, Any]], None], name: str) -> list[str]:
    document = json.loads(render_lock(LOCK))
    change(next(entry for entry in document["entries"] if entry["name"] == name))
    found, told = parse_lock(json.dumps(document).encode(), "lock/sources.lock.json")
    assert found is None
    return [problem.where for problem in told]


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("nccl", "commit", "x"),
        ("nccl", "tree", None),
        ("nccl", "submodules", [{"path": "../x", "commit": COMMIT, "tree": COMMIT}]),
        ("nccl", "picks", [{"commit": COMMIT, "patch": "%zz"}]),
        ("page", "sha256", None),
        ("page", "file", "a/b"),
        ("base", "images", [{"platform": "linux/amd64"}]),
        ("model", "files", None),
        ("model", "files", [{"path": "../a", "size": 1, "sha256": ASKED.hex, "blob-id": None}]),
        ("model", "files", [{"path": "a", "size": 1, "sha256": None, "blob-id": None}]),
        ("model", "known", {"a": "x"}),
        ("reading", "branch", ""),
        ("reading", "url", "https://example.org"),
    ],
)
def test_a_damaged_entry_is_refused_with_its_place(name: str, key: str, value: object) -> None:
    assert edited(lambda entry: entry.update({key: value}), name)


def test_an_unpinned_upstream_is_refused_with_its_reason_and_what_would_pin_it() -> None:
    entry = replace(LOCK.upstreams[0], unpinned="no registry here")
    lock = replace(LOCK, upstreams=(entry, *LOCK.upstreams[1:]))
    with pytest.raises(InputErrors) as caught:
        lock.upstream("base", OciEntry, where="derivations/x.toml: base.from")
    (problem,) = caught.value.problems()
    assert problem.detail == ("reason    no registry here",)
    assert problem.hint == "where it can be reached, run: derive lock sources --update base"


def test_an_upstream_of_another_type_or_none_is_refused() -> None:
    for name, kind in (("base", GitEntry), ("absent", OciEntry)):
        with pytest.raises(InputErrors):
            LOCK.upstream(name, kind)


def test_a_pattern_leads_into_no_folder() -> None:
    files: dict[str, Digest | None] = dict.fromkeys(("a.json", "b.txt", "sub/a.json"), ASKED)
    assert sorted(fitting("*.json", files)) == ["a.json"]
    assert sorted(fitting("sub/*", files)) == ["sub/a.json"]
    assert sorted(fitting("?.txt", files)) == ["b.txt"]
    assert fitting("a.jso", files) == {}


def test_what_was_seen_replaces_what_was_seen_before_and_an_unreachable_one_stays() -> None:
    row = Watched(
        name="reading",
        built=False,
        role="ideas",
        url="https://example.org/x.git",
        branch="main",
        seen=COMMIT,
        now=OTHER,
        tags=("v1.1",),
        newest_tag="v1.1",
    )
    (entry,) = seen_now(LOCK, (row,)).watched
    assert (entry.commit, entry.tag) == (OTHER, "v1.1")
    gone = replace(row, now=None, error=InputErrors.one("no answer"))
    assert seen_now(LOCK, (gone,)).watched == LOCK.watched
