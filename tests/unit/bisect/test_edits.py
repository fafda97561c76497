# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace

import pytest

from derive.bisect.edits import composed, edits_between
from derive.canonical import Digest
from derive.derivations.scope import load_scope
from derive.lock.documents import DebianLock, render_lock
from derive.lock.read import require_lock
from derive.lock.wishes import require_wish, wish_digest
from support.locks import debian_lock
from support.projects import DEBIAN_WISH, FILES, project

LOCK = "lock/x.lock.json"
Files = dict[str, bytes]


@pytest.fixture
def before() -> Files:
    """Return the sound project's files."""
    return {path: data.encode() if isinstance(data, str) else data for path, data in FILES.items()}


def words(before: Files, after: Files) -> list[str]:
    """Return the edits between two states as people read them."""
    return [str(edit) for edit in edits_between(before, after)]


def evaluates(files: Files) -> None:
    """Read a state as a project; raises InputErrors."""
    load_scope(project({**dict.fromkeys(FILES), **files}))


def bumped(lock: DebianLock, name: str) -> DebianLock:
    """Return a lock in which a package has another version, for every architecture."""
    renamed = {}
    debs = []
    for deb in lock.debs:
        if deb.name == name:
            file = deb.file.replace(f"_{deb.version}_", "_9.9_")
            renamed[deb.file] = file
            locator = f"pool/main/{name[0]}/{name}/{file}"
            deb = replace(deb, version="9.9", file=file, locator=locator, sha256=Digest("9" * 64))  # noqa: PLW2901
        debs.append(deb)
    closures = {
        closure: {arch: tuple(sorted(renamed.get(file, file) for file in files)) for arch, files in inner.items()}
        for closure, inner in lock.closures.items()
    }
    return replace(lock, debs=tuple(debs), closures=closures)


def wished(lock: DebianLock, wish: str = DEBIAN_WISH) -> bytes:
    """Return a lock's bytes, naming a wish."""
    return render_lock(replace(lock, wish=wish_digest(require_wish(wish.encode(), "wish"))))


def test_two_packages_of_a_lock_are_two_edits_and_each_gives_a_lock_that_can_be_read(before: Files) -> None:
    lock = debian_lock()
    names = sorted({deb.name for deb in lock.debs})[:2]
    after = {**before, LOCK: wished(bumped(bumped(lock, names[0]), names[1]))}
    edits = edits_between(before, after)
    assert [edit.place for edit in edits] == [f"{LOCK}: {name}" for name in names]
    assert all("-> 9.9" in edit.words for edit in edits)
    for edit, name in zip(edits, names, strict=True):
        made = composed(before, after, [edit])
        assert made[LOCK] == wished(bumped(lock, name))
        require_lock(made[LOCK], LOCK)
        evaluates(made)


def test_a_package_that_a_closure_gains_comes_with_its_entry(before: Files) -> None:
    lock = debian_lock()
    (closure, inner), *_ = lock.closures.items()
    arch, files = next((arch, files) for arch, files in inner.items() if len(files) > 1)
    fewer = replace(
        lock,
        debs=tuple(deb for deb in lock.debs if deb.file != files[0]),
        closures={**lock.closures, closure: {**inner, arch: files[1:]}},
    )
    states = {**before, LOCK: wished(fewer)}, {**before, LOCK: wished(lock)}
    (edit,) = edits_between(*states)
    made = json.loads(composed(*states, [edit])[LOCK])
    assert made == json.loads(wished(lock))


def test_a_closure_that_is_new_is_one_edit_with_all_its_entries(before: Files) -> None:
    lock = debian_lock()
    (closure, inner), *_ = lock.closures.items()
    more = replace(lock, closures={**lock.closures, "more": dict(inner)})
    states = {**before, LOCK: wished(lock)}, {**before, LOCK: wished(more)}
    assert words(*states) == [f"{LOCK}: closures.more.{arch} added" for arch in sorted(inner)]
    assert closure in json.loads(composed(*states, edits_between(*states)[:1])[LOCK])["closures"]


def test_a_lock_names_the_digest_of_whatever_its_wish_has_become(before: Files) -> None:
    wish = DEBIAN_WISH.replace('packages = ["aa", "bb"]', 'packages = ["aa"]')
    after = {**before, "lock/x.toml": wish.encode(), LOCK: wished(debian_lock(), wish)}
    (edit,) = edits_between(before, after)
    assert edit.place == "lock/x.toml: closures.run.packages"
    evaluates(composed(before, after, [edit]))


PATCHES = {
    "patches/b/series": b"# licence: MIT\n0002-b.patch\n0001-a.patch\n0003-c.patch\n",
    "patches/b/0001-a.patch": b"--- a/file\n+++ b/file\n@@ -1 +1 @@\n-old\n+newer\n",
    "patches/b/0002-b.patch": b"--- a/two\n+++ b/two\n@@ -1 +1 @@\n-old\n+new\n",
    "patches/b/0003-c.patch": b"--- a/three\n+++ b/three\n@@ -1 +1 @@\n-old\n+new\n",
}


def test_each_patch_that_came_or_changed_is_an_edit_and_takes_its_place_in_the_series(before: Files) -> None:
    after = {**before, **PATCHES}
    edits = edits_between(before, after)
    assert [str(edit) for edit in edits] == [
        "patches/b/0001-a.patch changed",
        "patches/b/0002-b.patch added",
        "patches/b/0003-c.patch added",
    ]
    for edit, series in zip(edits, ("0001", "0002 0001", "0001 0003"), strict=True):
        made = composed(before, after, [edit])
        names = [row[:4] for row in made["patches/b/series"].decode().splitlines() if row.endswith(".patch")]
        assert " ".join(names) == series
        evaluates(made)


def test_the_order_of_patches_that_both_have_is_an_edit_of_its_own(before: Files) -> None:
    after = {**before, **PATCHES}
    turned = {**after, "patches/b/series": b"# licence: MIT\n0003-c.patch\n0001-a.patch\n0002-b.patch\n"}
    (edit,) = edits_between(after, turned)
    assert edit.place == "patches/b/(order)"
    assert composed(after, turned, [edit]) == turned


def test_a_removed_patch_leaves_the_series_with_it(before: Files) -> None:
    after = {**before, **PATCHES}
    edits = {edit.key: edit for edit in edits_between(after, before)}
    made = composed(after, before, [edits["0003-c.patch",]])
    assert "patches/b/0003-c.patch" not in made
    assert b"0003" not in made["patches/b/series"]
    evaluates(made)


def test_toml_is_edited_key_by_key_and_layers_by_their_names(before: Files) -> None:
    image = before["images/image.toml"].decode()
    changed = image.replace('from = ["all", "code"]', 'from = ["all"]') + '\n[config]\nuser = "1"\n'
    script = before["derivations/d.toml"].replace(b"timeout = 9", b"timeout = 8")
    after = {**before, "images/image.toml": changed.encode(), "derivations/d.toml": script}
    assert words(before, after) == [
        "derivations/d.toml: script.timeout 9 -> 8",
        'images/image.toml: config added {"user":"1"}',
        'images/image.toml: layers[rest].from ["all","code"] -> ["all"]',
    ]
    for edit in edits_between(before, after):
        evaluates(composed(before, after, [edit]))


def test_any_other_file_is_edited_whole(before: Files) -> None:
    after = {**before, "derivations/d/build.sh": b"make all\n", "derivations/d/new.h": b""}
    del after["derivations/d/extra.h"]
    assert words(before, after) == [
        "derivations/d/build.sh changed",
        "derivations/d/extra.h removed",
        "derivations/d/new.h added",
    ]


def test_a_file_that_is_no_toml_is_edited_whole(before: Files) -> None:
    after = {**before, "derivations/d.toml": b"= broken"}
    (edit,) = edits_between(before, after)
    assert str(edit) == "derivations/d.toml changed"
    assert composed(before, after, [edit]) == after
