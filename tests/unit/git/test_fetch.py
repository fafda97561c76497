# SPDX-License-Identifier: Apache-2.0
"""Wishes become pins, and pins become trees with proofs, from real repositories over real HTTP."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest
from derive.errors import Corrupt, DeriveError, InputErrors, Interrupted, Unavailable, UpstreamGone
from derive.git.fetch import fetch_git, resolve_git
from derive.git.model import GitPin, GitRequest, SubmodulePin
from derive.git.program import Session
from derive.git.proof import check_proof, parse_proof
from derive.store.local import LocalStore
from derive.trees.listing import Symlink
from support.folders import Plain, nix_hash
from support.git_server import Files, GitHttp, Link, Upstream, module_file

PLAIN: Files = {
    b"README": Plain(b"read me\n"),
    b"src/main.c": Plain(b"int main(void) { return 0; }\n"),
    b"run": Plain(b"#!/bin/sh\n", executable=True),
    b"latest": Symlink(b"src/main.c"),
}
POINTER = b"version https://example.org/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12345\n"


class Notes:
    """Keeps what a person is told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.bytes = 0

    def start(self, name: str, size: int | None) -> None: ...

    def advance(self, name: str, count: int) -> None:
        self.bytes += count

    def done(self, name: str) -> None: ...

    def note(self, message: str) -> None:
        self.said.append(message)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitHttp]:
    (tmp_path / "served").mkdir()
    with GitHttp(tmp_path / "served") as running:
        yield running


@pytest.fixture
def upstream(server: GitHttp) -> Upstream:
    return Upstream(server.root / "demo.git")


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def session(notes: Notes) -> Session:
    return Session(progress=notes, silent_s=20, attempts=3, pause_s=0.01)


def pin_of(store: LocalStore, url: str, session: Session | None = None, **wish: object) -> GitPin:
    return resolve_git(store, GitRequest(name="demo", urls=(url,), **wish), session=session)  # type: ignore[arg-type]


def folder(upstream: Upstream) -> str:
    """Return a URL that needs no server, where a test is about something else."""
    return f"file://{upstream.path}"


def proved(store: LocalStore, pin: GitPin, url: str, session: Session | None = None) -> Digest:
    """Fetch a pin, and prove offline that the tree is the commit's; return the tree."""
    found = fetch_git(store, pin, (url,), session=session)
    proof = b"".join(store.read_blob(found.proof))
    check_proof(store, store.listing(found.tree), proof, pin.commit)
    assert found.tree == pin.nar
    return found.tree


def test_a_branch_is_pinned_by_commit_tree_and_nar(store: LocalStore, upstream: Upstream) -> None:
    commit = upstream.commit(PLAIN)
    pin = pin_of(store, folder(upstream), branch="main")
    assert (pin.commit, pin.tree, pin.branch, pin.tag) == (commit, upstream.id(f"{commit}^{{tree}}"), "main", None)
    assert pin.size == sum(len(entry.data) for entry in PLAIN.values() if isinstance(entry, Plain))
    assert proved(store, pin, folder(upstream)) == pin.nar


def test_the_tree_is_what_nix_hashes_of_a_plain_checkout(store: LocalStore, upstream: Upstream, tmp_path: Path) -> None:
    names: Files = {
        b"caf\xe9": Plain(b"a name that is not UTF-8"),
        b"a/z": Plain(b""),
        b"a.b": Plain(b"sorts elsewhere in git than in a NAR"),
        b"a-b/c": Plain(b"likewise"),
        b'quote"and\\\n': Plain(b"odd"),
        b"nothing": Symlink(b"to/nothing"),
        b"odd": Symlink(b"caf\xe9\n"),
    }
    commit = upstream.commit({**PLAIN, **names})
    pin = pin_of(store, folder(upstream))
    assert pin.nar.hex == nix_hash(upstream.checkout(commit, tmp_path / "checkout"))
    proved(store, pin, folder(upstream))


def test_without_branch_and_tag_the_default_branch_is_followed(store: LocalStore, upstream: Upstream) -> None:
    upstream.commit(PLAIN)
    other = upstream.commit({b"a": Plain(b"b")}, branch="trunk")
    upstream.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    pin = pin_of(store, folder(upstream))
    assert (pin.commit, pin.branch) == (other, "trunk")


def test_an_annotated_tag_is_peeled_and_its_object_kept_as_proof(store: LocalStore, upstream: Upstream) -> None:
    commit = upstream.commit(PLAIN)
    tag = upstream.tag("v1.0", commit)
    upstream.commit({b"later": Plain(b"")}, parent=commit)
    pin = pin_of(store, folder(upstream), tag="v1.0")
    assert (pin.commit, pin.tag, pin.tag_object) == (commit, "v1.0", tag)
    found = fetch_git(store, pin, (folder(upstream),))
    (raw,) = parse_proof(b"".join(store.read_blob(found.proof))).tags
    assert raw.startswith(b"object " + commit.encode())


def test_a_tag_of_a_tag_is_peeled_to_the_end(store: LocalStore, upstream: Upstream) -> None:
    commit = upstream.commit(PLAIN)
    inner = upstream.tag("inner", commit)
    outer = upstream.tag("outer", inner)
    pin = pin_of(store, folder(upstream), tag="outer")
    assert (pin.commit, pin.tag_object) == (commit, outer)
    found = fetch_git(store, pin, (folder(upstream),))
    assert len(parse_proof(b"".join(store.read_blob(found.proof))).tags) == 2


def test_a_light_tag_has_no_object(store: LocalStore, upstream: Upstream) -> None:
    commit = upstream.commit(PLAIN)
    upstream.tag("v1.0", commit, annotated=False)
    pin = pin_of(store, folder(upstream), tag="v1.0")
    assert (pin.commit, pin.tag_object) == (commit, None)


def test_a_tag_that_names_no_commit_is_refused(store: LocalStore, upstream: Upstream) -> None:
    commit = upstream.commit(PLAIN)
    upstream.tag("tree", upstream.id(f"{commit}^{{tree}}"), annotated=False)
    with pytest.raises(DeriveError, match="another kind of object"):
        pin_of(store, folder(upstream), tag="tree")


def test_a_tag_beside_a_commit_that_it_does_not_lead_to_is_told(
    store: LocalStore, upstream: Upstream, session: Session, notes: Notes
) -> None:
    commit = upstream.commit(PLAIN)
    later = upstream.commit({b"later": Plain(b"")}, parent=commit)
    upstream.tag("v1.0", later)
    pin = pin_of(store, folder(upstream), session, tag="v1.0", commit=commit)
    assert (pin.commit, pin.tag_object) == (commit, None)
    assert notes.said == [f"demo: tag v1.0 leads to {later}, not to the commit that is named"]


def test_a_tag_taken_away_later_leaves_the_commit_fetchable(
    store: LocalStore, server: GitHttp, upstream: Upstream
) -> None:
    commit = upstream.commit(PLAIN)
    upstream.tag("v1.0", commit)
    pin = pin_of(store, server.url("demo.git"), tag="v1.0")
    server.told.old_protocol = True  # the newer one would still give the tag object by its id
    upstream.git("tag", "-d", "v1.0")
    found = fetch_git(store, pin, (server.url("demo.git"),))
    assert found.tree == pin.nar
    assert found.notes == ("tag v1.0 is no longer what it was; its commit is still served",)
    check_proof(store, store.listing(found.tree), b"".join(store.read_blob(found.proof)), commit)


@pytest.mark.parametrize("old", [False, True])
def test_a_branch_that_was_forced_elsewhere_still_gives_the_pinned_commit_or_says_it_is_gone(
    old: bool, store: LocalStore, server: GitHttp, upstream: Upstream, session: Session
) -> None:
    commit = upstream.commit(PLAIN)
    pin = pin_of(store, server.url("demo.git"), branch="main")
    upstream.commit({b"other": Plain(b"history")})
    server.told.old_protocol = old
    if not old:
        assert proved(store, pin, server.url("demo.git")) == pin.nar
    else:
        with pytest.raises(UpstreamGone, match=f"no server gives commit {commit}") as caught:
            fetch_git(store, pin, (server.url("demo.git"),), session=session)
        assert "none of its branches and tags reaches this one" in caught.value.detail[0]
        assert "DERIVE_MIRROR_GIT" in (caught.value.hint or "")


@pytest.mark.parametrize("old", [False, True])
def test_a_commit_that_was_swept_away_is_gone(
    old: bool, store: LocalStore, server: GitHttp, upstream: Upstream, session: Session
) -> None:
    commit = upstream.commit(PLAIN)
    pin = pin_of(store, server.url("demo.git"))
    upstream.commit({b"other": Plain(b"history")})
    upstream.git("reflog", "expire", "--expire=now", "--all")
    upstream.git("gc", "--quiet", "--prune=now")
    server.told.old_protocol = old
    server.told.asked.clear()
    with pytest.raises(UpstreamGone, match=commit):
        fetch_git(store, pin, (server.url("demo.git"),), session=session)
    if not old:
        assert len(server.told.asked) <= 2, "all history is not fetched in vain"


def test_a_commit_deep_in_history_comes_by_id_without_the_history(store: LocalStore, upstream: Upstream) -> None:
    commit = upstream.commit(PLAIN)
    upstream.commit({b"big": Plain(os.urandom(1 << 20))}, parent=commit)
    pin = pin_of(store, folder(upstream), commit=commit)
    notes = Notes()
    fetch_git(store, pin, (folder(upstream),), progress=notes)
    assert 0 < notes.bytes < 1 << 16


@pytest.mark.parametrize(("where", "what"), [("branch", "heads/main"), ("tag", "tags/later"), (None, "every branch")])
def test_a_server_that_refuses_ids_is_asked_for_the_branch_or_tag_then_for_all(
    where: str | None, what: str, store: LocalStore, server: GitHttp, upstream: Upstream, session: Session, notes: Notes
) -> None:
    commit = upstream.commit(PLAIN)
    tip = upstream.commit({b"later": Plain(b"")}, parent=commit)
    upstream.tag("later", tip)
    server.told.old_protocol = True
    wish = {} if where is None else {where: {"branch": "main", "tag": "later"}[where]}
    pin = pin_of(store, server.url("demo.git"), session, commit=commit, **wish)
    assert any(what in line and "gives no commit by its id" in line for line in notes.said)
    assert proved(store, pin, server.url("demo.git"), session) == pin.nar


def test_a_server_that_allows_any_id_in_the_old_protocol_gives_what_no_branch_reaches(
    store: LocalStore, server: GitHttp, upstream: Upstream, session: Session, notes: Notes
) -> None:
    commit = upstream.commit(PLAIN)
    upstream.commit({b"other": Plain(b"history")})
    upstream.set("uploadpack.allowAnySHA1InWant", "true")
    server.told.old_protocol = True
    pin = pin_of(store, server.url("demo.git"), session, commit=commit)
    assert (pin.commit, notes.said) == (commit, [])


def test_a_server_of_plain_files_is_good_enough(
    store: LocalStore, server: GitHttp, upstream: Upstream, session: Session
) -> None:
    commit = upstream.commit(PLAIN)
    upstream.commit({b"later": Plain(b"")}, parent=commit)
    upstream.git("update-server-info")
    server.told.plain_files = True
    pin = pin_of(store, server.url("demo.git"), session, commit=commit, branch="main")
    assert proved(store, pin, server.url("demo.git"), session) == pin.nar


def test_export_subst_is_one_tree_as_head_and_ten_commits_later(store: LocalStore, upstream: Upstream) -> None:
    files: Files = {
        b".gitattributes": Plain(b"version.txt export-subst\n"),
        b"version.txt": Plain(b"$Format:%d %h %D %ad$\n"),
    }
    commit = upstream.commit(files)
    pin = pin_of(store, folder(upstream))
    tip = commit
    for number in range(10):
        tip = upstream.commit({**files, b"n": Plain(b"%d" % number)}, parent=tip)
    upstream.tag("v1", commit)
    again = pin_of(store, folder(upstream), commit=commit)
    assert (again.nar, again.tree) == (pin.nar, pin.tree)
    file = store.listing(again.nar)[b"version.txt"]
    assert b"".join(store.read(file)) == b"$Format:%d %h %D %ad$\n"  # type: ignore[arg-type]


def test_attributes_filters_and_settings_change_no_byte(store: LocalStore, upstream: Upstream, tmp_path: Path) -> None:
    attributes = (
        b"*.crlf text eol=lf\n*.lf text eol=crlf\n*.id ident\n*.f filter=shout\n*.u working-tree-encoding=UTF-16\n"
    )
    files: Files = {
        b".gitattributes": Plain(attributes + b"*.lfs filter=lfs diff=lfs merge=lfs -text\n"),
        b"a.crlf": Plain(b"one\r\ntwo\r\n"),
        b"a.lf": Plain(b"one\ntwo\n"),
        b"a.id": Plain(b"$Id$\n"),
        b"a.f": Plain(b"quiet\n"),
        b"a.u": Plain("grüße\n".encode()),
        b"mixed": Plain(b"one\r\ntwo\n\r"),
        b"model.lfs": Plain(POINTER),
    }
    commit = upstream.commit(files)
    settings = tmp_path / "gitconfig"
    settings.write_text(
        "[core]\n\tautocrlf = true\n\teol = crlf\n\tsymlinks = false\n\tfileMode = false\n\tprecomposeUnicode = true\n"
        '[filter "shout"]\n\tsmudge = tr a-z A-Z\n\trequired = true\n'
        '[filter "lfs"]\n\tsmudge = git-lfs smudge -- %f\n\trequired = true\n'
        f"[core]\n\tattributesFile = {tmp_path / 'attributes'}\n"
    )
    (tmp_path / "attributes").write_text("* text eol=crlf ident\n")
    pin = pin_of(store, folder(upstream))
    settings.write_text("")
    assert pin.nar.hex == nix_hash(upstream.checkout(commit, tmp_path / "checkout"))
    assert pin.lfs == ("model.lfs",)
    for path, entry in files.items():
        assert isinstance(entry, Plain)
        assert b"".join(store.read(store.listing(pin.nar)[path])) == entry.data  # type: ignore[arg-type]


def test_hooks_and_replacements_of_the_person_do_nothing(store: LocalStore, upstream: Upstream, tmp_path: Path) -> None:
    commit = upstream.commit(PLAIN)
    upstream.git("replace", commit, upstream.commit({b"fake": Plain(b"")}, branch="fake"))
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "reference-transaction").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (hooks / "reference-transaction").chmod(0o755)
    (tmp_path / "gitconfig").write_text(
        f"[core]\n\thooksPath = {hooks}\n[init]\n\ttemplateDir = {tmp_path}\n\tdefaultObjectFormat = sha256\n"
        '[remote "origin"]\n\tfetch = +refs/*:refs/*\n[fetch]\n\tprune = true\n\trecurseSubmodules = true\n'
    )
    pin = pin_of(store, folder(upstream), branch="main")
    proved(store, pin, folder(upstream))
    assert pin.commit == commit
    assert not (tmp_path / "ran").exists()


def test_files_that_are_lfs_pointers_are_named_and_others_are_not(store: LocalStore, upstream: Upstream) -> None:
    upstream.commit(
        {
            b"a/caf\xe9.bin": Plain(POINTER),
            b"b.bin": Plain(POINTER.replace(b"oid", b"ext-0-x sha256:" + b"b" * 64 + b"\noid")),
            b"almost": Plain(POINTER + b"more\n"),
            b"long": Plain(POINTER + b" " * 2000),
            b"link": Symlink(b"b.bin"),
        }
    )
    assert pin_of(store, folder(upstream)).lfs == ("a/caf%E9.bin", "b.bin")


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([(b"40000", b".git")], "never lays out"),
        ([(b"100644", b"x"), (b"100644", b"x.b"), (b"40000", b"x")], "twice"),
        ([(b"100644", b"..")], "no folder can hold"),
        ([(b"100644", b"n" * 256)], "a name of 256 bytes"),
    ],
)
def test_a_tree_that_no_folder_can_be_is_refused_by_name(
    entries: list[tuple[bytes, bytes]], why: str, store: LocalStore, upstream: Upstream
) -> None:
    blob, empty = upstream.raw("blob", b""), upstream.raw("tree", b"")
    raw = b"".join(
        b"%s %s\0%s" % (mode, name, bytes.fromhex(empty if mode == b"40000" else blob)) for mode, name in entries
    )
    commit = upstream.commit_raw_tree(upstream.raw("tree", raw))
    with pytest.raises(InputErrors) as caught:
        pin_of(store, folder(upstream))
    (problem,) = caught.value.problems()
    assert why in problem.message
    assert problem.where.startswith(f"demo {commit[:12]}: ")


def test_every_refused_path_is_told_at_once(store: LocalStore, upstream: Upstream) -> None:
    blob = bytes.fromhex(upstream.raw("blob", b""))
    bad = [bytes.fromhex(upstream.raw("tree", b"100644 %s\0%s" % (name, blob))) for name in (b".git", b"..")]
    upstream.commit_raw_tree(upstream.raw("tree", b"40000 a\0%s40000 b\0%s" % tuple(bad)))
    with pytest.raises(InputErrors) as caught:
        pin_of(store, folder(upstream))
    assert [problem.where.rpartition(": ")[2] for problem in caught.value.problems()] == ["a", "b"]


def test_old_modes_and_empty_folders_are_read_and_proved(store: LocalStore, upstream: Upstream) -> None:
    blob, empty = bytes.fromhex(upstream.raw("blob", b"old\n")), bytes.fromhex(upstream.raw("tree", b""))
    raw = b"040000 empty\0%s100664 group\0%s" % (empty, blob)
    commit = upstream.commit_raw_tree(upstream.raw("tree", raw))
    pin = pin_of(store, folder(upstream))
    assert list(store.listing(pin.nar)) == [b"", b"empty", b"group"]
    assert (pin.commit, pin.nar) == (commit, proved(store, pin, folder(upstream)))


def test_a_commit_of_nothing_is_an_empty_tree(store: LocalStore, upstream: Upstream) -> None:
    upstream.commit({})
    pin = pin_of(store, folder(upstream))
    assert (pin.size, len(store.listing(pin.nar))) == (0, 1)
    proved(store, pin, folder(upstream))


def test_a_sha256_repository_is_refused_by_name(store: LocalStore, server: GitHttp, session: Session) -> None:
    other = Upstream(server.root / "long.git", object_format="sha256")
    other.commit(PLAIN)
    with pytest.raises(Unavailable, match="could not be had") as caught:
        pin_of(store, server.url("long.git"), session)
    assert "SHA-256 object format" in "".join(caught.value.detail)
    with pytest.raises(ValueError, match="SHA-256 object format"):
        GitRequest(name="demo", urls=(server.url("long.git"),), commit="a" * 64)


@pytest.mark.parametrize("wish", [{"tag": "v9"}, {"branch": "absent"}, {"commit": "a" * 40}, {}])
def test_what_is_not_there_is_gone(
    wish: dict[str, str], store: LocalStore, server: GitHttp, upstream: Upstream, session: Session
) -> None:
    if wish:
        upstream.commit(PLAIN)
    with pytest.raises(UpstreamGone, match="demo: "):
        pin_of(store, server.url("demo.git"), session, **wish)


def test_a_repository_that_is_not_there_is_gone(store: LocalStore, server: GitHttp, session: Session) -> None:
    with pytest.raises(UpstreamGone, match="nobody serves default branch"):
        pin_of(store, server.url("absent.git"), session)


def test_nothing_is_resolved_offline(store: LocalStore) -> None:
    request = GitRequest(name="demo", urls=("https://example.org/demo.git",))
    with pytest.raises(Unavailable, match="offline"):
        resolve_git(store, request, offline=True)


def test_another_repository_under_the_url_is_gone_not_taken(
    store: LocalStore, server: GitHttp, upstream: Upstream, session: Session
) -> None:
    upstream.commit(PLAIN)
    pin = pin_of(store, server.url("demo.git"))
    Upstream(server.root / "other.git").commit({b"evil": Plain(b"")})
    with pytest.raises(UpstreamGone, match=pin.commit):
        fetch_git(store, pin, (server.url("other.git"),), session=session)


def test_a_pin_that_says_something_else_is_corrupt(store: LocalStore, upstream: Upstream) -> None:
    upstream.commit(PLAIN)
    pin = pin_of(store, folder(upstream))
    submodule = SubmodulePin(path="x", commit="a" * 40, tree="b" * 40)
    for wrong, message in (
        (dataclasses.replace(pin, tree="b" * 40), "tree is not the one that the lock names"),
        (dataclasses.replace(pin, nar=Digest("b" * 64)), "contents are not those that the lock names"),
        (dataclasses.replace(pin, submodules=(submodule,)), "submodules are not those that the lock names"),
    ):
        with pytest.raises(Corrupt, match=message) as caught:
            fetch_git(store, wrong, (folder(upstream),))
        assert caught.value.detail[0].startswith("expected  ")


@pytest.mark.parametrize("fault", ["cut", "garbage", "busy"])
def test_a_transfer_that_breaks_is_tried_again(
    fault: str, store: LocalStore, server: GitHttp, upstream: Upstream, session: Session
) -> None:
    upstream.commit({b"big": Plain(os.urandom(1 << 16)), **PLAIN})
    pin = pin_of(store, server.url("demo.git"))
    server.told.faults[:] = [fault, fault]  # type: ignore[list-item]
    assert proved(store, pin, server.url("demo.git"), session) == pin.nar


def test_a_server_that_never_gets_it_right_is_told_after_a_few_attempts(
    store: LocalStore, server: GitHttp, upstream: Upstream, session: Session
) -> None:
    upstream.commit({b"big": Plain(os.urandom(1 << 16))})
    pin = pin_of(store, server.url("demo.git"))
    server.told.faults[:] = ["garbage"] * 50
    with pytest.raises(Unavailable, match="could not be had"):
        fetch_git(store, pin, (server.url("demo.git"),), session=session)
    assert len(server.told.faults) > 40
    server.told.faults.clear()
    assert list((store.root / "tmp").glob("*/*")) == []


def test_a_silent_server_is_left_and_not_asked_again(
    store: LocalStore, server: GitHttp, upstream: Upstream, notes: Notes
) -> None:
    upstream.commit(PLAIN)
    pin = pin_of(store, server.url("demo.git"))
    server.told.faults[:] = ["hang"] * 9
    patience = Session(progress=notes, silent_s=1.2)
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(Unavailable, match="could not be had"):
            fetch_git(store, pin, (server.url("demo.git"),), session=patience)
    assert time.monotonic() - began < 10
    assert len([line for line in notes.said if "does not answer" in line]) == 1
    assert len(server.told.faults) == 8


def test_a_dead_mirror_is_said_once_and_the_next_place_is_asked(
    store: LocalStore, server: GitHttp, upstream: Upstream, session: Session, notes: Notes
) -> None:
    upstream.commit(PLAIN)
    request = GitRequest(name="demo", urls=(server.url("demo.git"),), mirrors=("http://127.0.0.1:9/mirror",))
    pin = resolve_git(store, request, session=session)
    found = fetch_git(store, pin, request.urls, mirrors=request.mirrors, session=session)
    assert found.url == server.url("demo.git")
    assert len(notes.said) == 1
    assert notes.said[0].startswith("http://127.0.0.1:9/mirror/")


def test_a_mirror_is_asked_before_the_upstream(
    store: LocalStore, server: GitHttp, upstream: Upstream, session: Session
) -> None:
    upstream.commit(PLAIN)
    request = GitRequest(name="demo", urls=("http://127.0.0.1:9/group/repo",), mirrors=(server.base,))
    pin = resolve_git(store, request, session=session)
    assert fetch_git(store, pin, request.urls, mirrors=request.mirrors).url == server.url("demo.git")


def test_a_wish_to_stop_ends_git_at_once(store: LocalStore, server: GitHttp, upstream: Upstream) -> None:
    upstream.commit(PLAIN)
    pin = pin_of(store, server.url("demo.git"))
    server.told.faults[:] = ["hang"]
    stopping = Session()
    timer = threading.Timer(0.3, stopping.cancel.set)
    timer.start()
    began = time.monotonic()
    with pytest.raises(Interrupted):
        fetch_git(store, pin, (server.url("demo.git"),), session=stopping)
    assert time.monotonic() - began < 3
    timer.join()


def test_credentials_in_a_url_work_and_are_never_told(
    store: LocalStore, server: GitHttp, upstream: Upstream, session: Session
) -> None:
    upstream.commit(PLAIN)
    server.told.password = "s3cret-word"
    pin = pin_of(store, server.url("demo.git", "me:s3cret-word"), session)
    assert fetch_git(store, pin, (server.url("demo.git", "me:s3cret-word"),)).url == server.url("demo.git")
    for wrong in ("me:wrong-s3cret", "me:a@b-s3cret", "tok-s3cret"):
        with pytest.raises(Unavailable) as caught:
            pin_of(store, server.url("demo.git", wrong.replace("@", "%40")), session)
        text = "\n".join((caught.value.message, *caught.value.detail, caught.value.hint or ""))
        assert "s3cret" not in text
        assert "credential helper" in text


def test_a_credential_helper_is_asked(store: LocalStore, server: GitHttp, upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit(PLAIN)
    server.told.password = "word"
    (tmp_path / "gitconfig").write_text(
        '[credential]\n\thelper = "!f() { echo username=me; echo password=word; }; f"\n'
    )
    assert pin_of(store, server.url("demo.git")).branch == "main"


def test_without_credentials_nobody_is_asked_and_the_refusal_is_told(
    store: LocalStore, server: GitHttp, upstream: Upstream, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_ASKPASS", "/bin/false")
    monkeypatch.setenv("DISPLAY", ":0")
    upstream.commit(PLAIN)
    server.told.password = "word"
    with pytest.raises(Unavailable, match="could not be had") as caught:
        pin_of(store, server.url("demo.git"), session)
    assert "git asks nobody here" in (caught.value.hint or "")


def test_instead_of_leads_where_the_person_says_even_to_a_folder(
    store: LocalStore, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit(PLAIN)
    (tmp_path / "gitconfig").write_text(
        f'[url "{upstream.path.parent}/"]\n\tinsteadOf = https://example.org/\n[safe]\n\tdirectory = *\n'
    )
    assert pin_of(store, "https://example.org/demo.git").branch == "main"


@pytest.mark.parametrize("form", ["{path}", "file://{path}"])
def test_a_folder_that_is_named_is_asked(form: str, store: LocalStore, upstream: Upstream) -> None:
    upstream.commit(PLAIN)
    assert pin_of(store, form.format(path=upstream.path)).branch == "main"


@pytest.mark.parametrize(
    "url", ["ext::sh -c true", "-oProxyCommand=x", "ftp://example.org/x", "relative/path", "a b", ""]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        GitRequest(name="demo", urls=(url,))


def test_variables_that_name_repositories_change_nothing(
    store: LocalStore, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit = upstream.commit(PLAIN)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_NAMESPACE", "other")
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    monkeypatch.setenv("GIT_TRACE", "1")
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    assert pin_of(store, folder(upstream)).commit == commit
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def family(server: GitHttp) -> Callable[..., Upstream]:
    """Return a function that writes a repository with submodules: path -> (repository, URL)."""

    def write(name: str, files: Files, modules: dict[str, tuple[str, str]] | None = None) -> Upstream:
        found = Upstream(server.root / name)
        links = {path.encode(): Link(commit) for path, (commit, _) in (modules or {}).items()}
        listed = {b".gitmodules": module_file({path: url for path, (_, url) in modules.items()})} if modules else {}
        found.commit({**files, **links, **listed})
        return found

    return write


def test_submodules_are_fetched_relative_ones_and_those_inside_others(
    store: LocalStore, server: GitHttp, family: Callable[..., Upstream], tmp_path: Path
) -> None:
    leaf = family("group/leaf.git", {b"leaf": Plain(b"leaf\n")})
    middle = family("group/middle.git", {b"middle": Plain(b"m\n")}, {"in/leaf": (leaf.id("main"), "../leaf.git")})
    top = family(
        "top.git",
        {b"top": Plain(b"t\n")},
        {
            "ext/middle": (middle.id("main"), "./../group/middle"),
            "other": (leaf.id("main"), server.url("group/leaf.git")),
        },
    )
    pin = pin_of(store, server.url("top.git"), submodules=True)
    assert [item.path for item in pin.submodules] == ["ext/middle", "ext/middle/in/leaf", "other"]
    assert [item.commit for item in pin.submodules] == [middle.id("main"), leaf.id("main"), leaf.id("main")]
    proved(store, pin, server.url("top.git"))
    laid = top.checkout(top.id("main"), tmp_path / "laid")
    for repository, path in ((middle, "ext/middle"), (leaf, "ext/middle/in/leaf"), (leaf, "other")):
        (laid / path).rmdir()
        repository.checkout(repository.id("main"), laid / path)
        Path(f"{laid / path}.index").unlink()
    assert pin.nar.hex == nix_hash(laid)


def test_submodules_that_are_not_wanted_are_empty_folders(
    store: LocalStore, server: GitHttp, family: Callable[..., Upstream], tmp_path: Path
) -> None:
    top = family("top.git", {b"top": Plain(b"t\n")}, {"sub": ("a" * 40, "https://example.org/never.git")})
    pin = pin_of(store, server.url("top.git"))
    assert pin.submodules == ()
    assert pin.nar.hex == nix_hash(top.checkout(top.id("main"), tmp_path / "laid"))
    proved(store, pin, server.url("top.git"))


@pytest.mark.parametrize("old", [False, True])
def test_a_submodule_at_a_commit_that_no_branch_reaches_is_fetched_by_id_or_named(
    old: bool, store: LocalStore, server: GitHttp, family: Callable[..., Upstream], session: Session
) -> None:
    sub = family("sub.git", {b"first": Plain(b"")})
    lost = sub.id("main")
    sub.commit({b"other": Plain(b"history")})
    family("top.git", {b"top": Plain(b"")}, {"vendor/sub": (lost, "../sub.git")})
    server.told.old_protocol = old
    if not old:
        pin = pin_of(store, server.url("top.git"), session, submodules=True)
        assert proved(store, pin, server.url("top.git")) == pin.nar
    else:
        with pytest.raises(UpstreamGone, match=f"submodule vendor/sub at commit {lost}") as caught:
            pin_of(store, server.url("top.git"), session, submodules=True)
        assert "submodule-urls" in (caught.value.hint or "")


def test_a_submodule_can_be_had_from_elsewhere(
    store: LocalStore, server: GitHttp, family: Callable[..., Upstream], session: Session
) -> None:
    sub = family("sub.git", {b"first": Plain(b"")})
    family("top.git", {b"top": Plain(b"")}, {"sub": (sub.id("main"), "http://127.0.0.1:9/sub.git")})
    urls = {"sub": server.url("sub.git")}
    pin = pin_of(store, server.url("top.git"), session, submodules=True, submodule_urls=urls)
    found = fetch_git(store, pin, (server.url("top.git"),), submodule_urls=urls)
    assert found.tree == pin.nar
    mirrored = fetch_git(store, pin, (server.url("top.git"),), mirrors=(server.base,), session=session)
    assert mirrored.tree == pin.nar


def test_a_url_for_a_submodule_that_is_not_there_is_refused(
    store: LocalStore, server: GitHttp, upstream: Upstream
) -> None:
    upstream.commit(PLAIN)
    with pytest.raises(InputErrors) as caught:
        pin_of(store, server.url("demo.git"), submodules=True, submodule_urls={"lib": "https://example.org/lib"})
    assert caught.value.problems()[0].message == "no submodule lies at lib"


@pytest.mark.parametrize(
    ("modules", "why"),
    [
        (None, "gives no URL"),
        (Plain(b'[submodule "x"]\n\tpath = elsewhere\n\turl = ../sub.git\n'), "gives no URL"),
        (Plain(b'[submodule "sub"]\n\tpath = sub\n\turl = ext::sh -c touch% /tmp/x\n'), "URL"),
        (Plain(b'[submodule "sub"]\n\tpath = sub\n\turl = -u./payload\n'), "URL"),
        (Plain(b"[submodule\n"), "cannot be read"),
        (Symlink(b"other"), "symbolic link"),
    ],
)
def test_a_gitmodules_that_is_no_help_is_an_error_that_names_the_path(
    modules: Plain | Symlink | None, why: str, store: LocalStore, server: GitHttp, upstream: Upstream, session: Session
) -> None:
    listed = {} if modules is None else {b".gitmodules": modules}
    upstream.commit({b"sub": Link("a" * 40), b"other": Plain(b""), **listed})
    with pytest.raises(InputErrors) as caught:
        pin_of(store, server.url("demo.git"), session, submodules=True)
    (problem,) = caught.value.problems()
    assert why in problem.message
    assert "sub" in problem.where or ".gitmodules" in problem.where


def test_a_repository_cannot_choose_a_folder_of_this_machine_as_its_submodule(
    store: LocalStore, server: GitHttp, family: Callable[..., Upstream], tmp_path: Path, session: Session
) -> None:
    secret = Upstream(tmp_path / "secret.git")
    commit = secret.commit({b"secret": Plain(b"")})
    for url in (str(secret.path), f"file://{secret.path}"):
        family(f"top{len(url)}.git", {b"top": Plain(b"")}, {"sub": (commit, url)})
        with pytest.raises(DeriveError):
            pin_of(store, server.url(f"top{len(url)}.git"), session, submodules=True)


def test_gitmodules_includes_are_not_followed(
    store: LocalStore, server: GitHttp, upstream: Upstream, tmp_path: Path, session: Session
) -> None:
    (tmp_path / "included").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ../demo.git\n')
    modules = Plain(f"[include]\n\tpath = {tmp_path / 'included'}\n".encode())
    upstream.commit({b".gitmodules": modules, b"sub": Link("a" * 40)})
    with pytest.raises(InputErrors, match="1 problem"):
        pin_of(store, server.url("demo.git"), session, submodules=True)


def test_the_store_keeps_no_scratch(store: LocalStore, upstream: Upstream) -> None:
    upstream.commit(PLAIN)
    pin_of(store, folder(upstream))
    assert list((store.root / "tmp").glob("*/*")) == []


def test_two_fetches_of_one_commit_leave_the_same_blobs(store: LocalStore, upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit(PLAIN)
    pin = pin_of(store, folder(upstream))
    with LocalStore(tmp_path / "other") as other:
        fetch_git(other, pin, (folder(upstream),))
        names = [sorted(path.name for path in (each.root / "blobs/sha256").iterdir()) for each in (store, other)]
    assert names[0] == names[1]
