# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.derivations.model import ResolvedDerivation
from derive.errors import Unavailable
from derive.store.findings import Finding, Verified
from derive.store.local import LocalStore
from derive.store.repair import Repair, repair
from derive.store.verify import How, verify
from support.stored import Made, add_blob, fetched, image, tree

JOBS = How(jobs=2)
FAST = How(jobs=2, fast=True)
TREES = How(jobs=2, trees=True)
ARCHIVE = b"archive" * 1000


class Closure:
    """A store with one of everything: an artifact, trees, an unpacked one, an image."""

    def __init__(self, root: Path) -> None:
        self.root = root
        with LocalStore(root) as store:
            self.deb = fetched(store, ARCHIVE, "notes_1_amd64.deb")
            self.tree = tree(store, b"unpacked", self.deb)
            self.folder = store.folder(self.tree.digest)
            self.image = image(store, "a", self.tree)

    def verify(self, how: How = JOBS) -> Verified:
        with LocalStore(self.root) as store:
            return verify(store, how)

    def blob(self, digest: Digest) -> Path:
        return self.root / "blobs" / "sha256" / digest.hex

    def listing(self) -> Path:
        return self.root / "listings" / f"{self.tree.digest.hex}.json"

    def pack(self) -> Path:
        return self.blob(sha256(b"unpacked"))

    def sql(self, text: str, *values: str) -> None:
        with LocalStore(self.root) as store, store.database.cursor() as cursor:
            cursor.execute(text, values)


@pytest.fixture
def closure(tmp_path: Path) -> Closure:
    return Closure(tmp_path / "store")


def spoil(path: Path, data: bytes | None = None) -> None:
    """Change a file's last byte, or all of it, and leave its mode and times."""
    facts = path.stat()
    whole = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]) if data is None else data)
    path.chmod(facts.st_mode)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def kinds(found: Verified) -> list[str]:
    return [finding.kind.value for finding in found.findings]


def only(found: Verified) -> Finding:
    (finding,) = found.findings
    return finding


@pytest.mark.parametrize("how", [JOBS, FAST, TREES], ids=["all", "fast", "trees"])
def test_a_sound_store_is_found_so(closure: Closure, how: How) -> None:
    found = closure.verify(how)
    assert found.findings == ()
    assert found.is_sound
    assert (found.blobs, found.trees, found.folders, found.derivations) == (5, 1, 1, 4)
    assert bool(found.hashed) != how.fast


def test_a_new_and_empty_store_is_sound(tmp_path: Path) -> None:
    with LocalStore(tmp_path) as store:
        assert verify(store, JOBS).findings == ()


def test_a_blob_with_another_byte_is_named_with_what_is_lost(closure: Closure) -> None:
    spoil(closure.blob(closure.deb.digest))
    finding = only(closure.verify())
    assert (finding.kind.value, finding.name) == ("blob", closure.deb.digest.hex)
    assert "its bytes are those of sha256:" in finding.what
    assert finding.lost == "notes_1_amd64.deb"
    assert closure.verify(FAST).is_sound


def test_a_damaged_pack_loses_the_trees_in_it(closure: Closure) -> None:
    spoil(closure.pack())
    assert only(closure.verify()).lost == closure.tree.derivation.name


@pytest.mark.parametrize("how", [JOBS, FAST], ids=["all", "fast"])
@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"{", "cannot be read"),
        (b'{"blobs":[],"entries":[["%"]]}', "cannot be read"),
        (b'{"derive":"listing/1","blobs":["%s"],"entries":[[""],["a",0,9,"%s",0,1,9,"raw"]]}', "goes beyond the end"),
        (b'{"derive":"listing/1","blobs":["%s"],"entries":[[""],["a",0,9,"%s",0,-1,9,"raw"]]}', "has no place"),
    ],
)
def test_a_listing_that_makes_no_sense_is_told(closure: Closure, how: How, data: bytes, what: str) -> None:
    pack = sha256(b"unpacked").hex.encode()
    spoil(closure.listing(), data.replace(b"%s", pack) if b"%s" in data else data)
    found = closure.verify(how)
    (finding,) = (one for one in found.findings if one.kind.value == "listing")
    assert what in finding.what
    assert finding.lost == closure.tree.derivation.name


def test_a_listing_with_another_bit_is_found_from_the_bytes_that_it_names(closure: Closure) -> None:
    text = closure.listing().read_bytes()
    spoil(closure.listing(), text.replace(b'"usr/file",0,', b'"usr/file",1,'))
    finding = next(one for one in closure.verify().findings if one.kind.value == "listing")
    assert "it lists the tree" in finding.what


def test_a_tree_is_hashed_again_only_when_its_listing_was_never_seen_to_give_it(
    closure: Closure, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Digest] = []
    real = digest_again_of()

    def counted(*args: object) -> Digest:
        hashed.append(real(*args))
        return hashed[-1]

    monkeypatch.setattr("derive.store.verify.digest_again", counted)
    closure.verify()
    assert hashed == []
    closure.verify(TREES)
    assert hashed == [closure.tree.digest]
    closure.sql("DELETE FROM memos")
    closure.verify()
    closure.verify()
    assert hashed == [closure.tree.digest] * 2


def digest_again_of() -> Callable[..., Digest]:
    from derive.trees.facts import digest_again

    return digest_again


def test_a_listing_whose_blob_was_removed_is_told(closure: Closure) -> None:
    closure.pack().unlink()
    assert kinds(closure.verify()) == ["listing"]


@pytest.mark.parametrize("how", [JOBS, FAST], ids=["all", "fast"])
@pytest.mark.parametrize(
    "change",
    [
        lambda top: (top / "usr" / "file").chmod(0o555),
        lambda top: (top / "usr" / "more").write_bytes(b""),
        lambda top: (top / "usr" / "file").unlink(),
        lambda top: os.link(top / "usr" / "file", top.parent / "link"),
        lambda top: os.utime(top / "usr" / "file"),
        lambda top: (top / "usr").chmod(0o700),
    ],
    ids=["mode", "more", "less", "hard link", "time", "folder mode"],
)
def test_an_unpacked_tree_that_differs_from_its_listing_is_told(
    closure: Closure, how: How, change: Callable[[Path], object]
) -> None:
    for folder in (closure.folder, closure.folder / "usr"):
        folder.chmod(0o755)
    change(closure.folder)
    if (closure.folder / "usr").stat().st_mode & 0o777 != 0o700:
        (closure.folder / "usr").chmod(0o555)
    found = closure.verify(how)
    assert "unpacked tree" in kinds(found)
    assert not found.is_sound


def test_another_byte_in_an_unpacked_tree_is_found_by_hashing_alone(closure: Closure) -> None:
    spoil(closure.folder / "usr" / "file")
    assert only(closure.verify()).what.startswith("usr/file: its bytes are those of sha256:")
    assert closure.verify(FAST).is_sound


def test_an_image_without_one_of_its_layers_is_told_as_a_root(closure: Closure) -> None:
    manifest = json.loads(closure.blob(closure.image.digest).read_bytes())
    closure.blob(Digest.parse(manifest["layers"][0]["digest"])).unlink()
    finding = only(closure.verify(FAST))
    assert (finding.kind.value, finding.name) == ("root", "a@linux/amd64")
    assert finding.lost == "it cannot be run; derive it again"


def test_rows_that_are_not_what_they_were_are_told(closure: Closure) -> None:
    closure.sql("UPDATE derivations SET document = replace(document, 'any', 'all') WHERE name LIKE 'layer%'")
    closure.sql("UPDATE realisations SET outputs = '{\"out\":\"x\"}' WHERE builder = 'layer/1'")
    closure.sql("INSERT INTO tree_blobs VALUES (?, ?)", closure.tree.digest.hex, sha256(b"x").hex)
    found = closure.verify()
    assert {"derivation row", "realisation row", "tree rows"} <= set(kinds(found))


def test_a_database_that_is_damaged_is_told(closure: Closure) -> None:
    path = closure.root / "derive.sqlite"
    path.write_bytes(b"not a database at all" * 400)
    finding = only(closure.verify())
    assert finding.kind.value == "database"


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"manifests":[{}]}'])
def test_an_index_that_cannot_be_read_is_told(closure: Closure, data: bytes) -> None:
    (closure.root / "index.json").write_bytes(data)
    assert kinds(closure.verify()) == ["image index"]


def test_what_nothing_names_is_told_and_no_damage(closure: Closure) -> None:
    with LocalStore(closure.root) as store:
        add_blob(store, b"left by a killed process")
    for name in ("notes.txt", "blobs/sha256/x", "listings/y.json", "trees/z"):
        (closure.root / name).write_bytes(b"")
    (closure.root / "tmp" / "gone").mkdir()
    found = closure.verify()
    assert kinds(found) == ["orphan", *["stray file"] * 5]
    assert found.is_sound


def test_what_a_living_process_has_just_written_is_no_orphan(closure: Closure) -> None:
    with LocalStore(closure.root) as other:
        add_blob(other, b"not yet named")
        assert closure.verify().findings == ()


# Repair


class Served:
    """What mirrors and archives have; notes what is asked for."""

    def __init__(self, *served: bytes) -> None:
        self.served = {sha256(data): data for data in served}
        self.asked: list[tuple[str, str | None]] = []

    def mend(self, closure: Closure, how: How = JOBS) -> dict[str, Repair]:
        with LocalStore(closure.root) as store:

            def bring(digest: Digest, name: str, request: ResolvedDerivation | None) -> None:
                self.asked.append((name, None if request is None else request.builder))
                if digest not in self.served:
                    raise Unavailable("nobody has it")
                assert add_blob(store, self.served[digest]) == digest

            done = repair(store, verify(store, how).findings, bring)
        return {one.finding.kind.value: one for one in done}


def test_a_damaged_artifact_is_fetched_again_and_the_damaged_one_kept_aside(closure: Closure) -> None:
    spoil(closure.blob(closure.deb.digest))
    damaged = closure.blob(closure.deb.digest).read_bytes()
    served = Served(ARCHIVE)
    done = served.mend(closure)["blob"]
    assert (done.done, done.is_mended) == ("brought back", True)
    assert served.asked == [("notes_1_amd64.deb", "fetch-deb")]
    assert closure.verify().findings == ()
    assert (closure.root / "damaged" / closure.deb.digest.hex).read_bytes() == damaged


def test_an_artifact_that_nobody_serves_is_said_to_be_lost(closure: Closure) -> None:
    spoil(closure.blob(closure.deb.digest))
    done = Served().mend(closure)["blob"]
    said = "moved aside; not brought back: nobody has it; the next build that needs it asks for it again"
    assert (done.done, done.is_mended) == (said, False)
    assert not closure.blob(closure.deb.digest).exists()


def test_a_pack_that_nobody_serves_is_made_again_from_the_unpacked_tree(closure: Closure) -> None:
    spoil(closure.pack())
    done = Served().mend(closure)["blob"]
    assert done.done == "moved aside; 1 tree in it made again from folders"
    assert done.is_mended
    assert closure.verify(TREES).findings == ()
    assert present(closure, closure.tree)


def test_a_tree_of_which_nothing_is_left_is_forgotten_and_the_store_is_sound(closure: Closure) -> None:
    spoil(closure.pack())
    spoil(closure.folder / "usr" / "file")
    done = Served().mend(closure)
    said = "moved aside; 1 tree in it forgotten: the next build that needs it makes it again"
    assert (done["blob"].done, done["blob"].is_mended) == (said, True)
    assert not present(closure, closure.tree)
    assert closure.verify().is_sound


def present(closure: Closure, made: Made) -> bool:
    with LocalStore(closure.root) as store:
        return store.has_tree(made.digest)


def test_a_damaged_listing_is_made_again_from_the_unpacked_tree(closure: Closure) -> None:
    spoil(closure.listing(), b"{")
    assert Served().mend(closure)["listing"].done == "made again from its folder"
    assert present(closure, closure.tree)
    assert closure.verify(TREES).findings == ()


def test_a_damaged_folder_is_removed_and_made_again_when_asked_for(closure: Closure) -> None:
    spoil(closure.folder / "usr" / "file")
    Served().mend(closure)
    assert not closure.folder.exists()
    with LocalStore(closure.root) as store:
        store.folder(closure.tree.digest)
    assert closure.verify().findings == ()


def test_rows_are_forgotten_or_written_again(closure: Closure) -> None:
    closure.sql("UPDATE derivations SET document = replace(document, 'any', 'all') WHERE name LIKE 'layer%'")
    closure.sql("UPDATE realisations SET outputs = '{\"out\":\"x\"}' WHERE builder = 'layer/1'")
    closure.sql("INSERT INTO tree_blobs VALUES (?, ?)", closure.tree.digest.hex, sha256(b"x").hex)
    assert all(one.is_mended for one in Served().mend(closure).values())
    assert closure.verify().is_sound


def test_the_index_is_written_again_from_the_table_of_roots(closure: Closure) -> None:
    (closure.root / "index.json").write_bytes(b"{")
    assert Served().mend(closure)["image index"].done == "written again: 1 names from the table of roots"
    entries = json.loads((closure.root / "index.json").read_bytes())["manifests"]
    assert [entry["digest"] for entry in entries] == [str(closure.image.digest)]
    assert closure.verify().findings == ()


def test_an_image_whose_layer_came_back_is_whole_again(closure: Closure) -> None:
    manifest = json.loads(closure.blob(closure.image.digest).read_bytes())
    layer = closure.blob(Digest.parse(manifest["layers"][0]["digest"]))
    spoil(layer)
    assert Served(b"layer a").mend(closure)["blob"].is_mended
    assert closure.verify().findings == ()
    layer.unlink()
    done = Served().mend(closure)["root"]
    assert (done.done, done.is_mended) == ("not mended: derive image a", False)


def test_strays_below_the_stores_folders_are_moved_away_and_others_left(closure: Closure) -> None:
    for name in ("notes.txt", "blobs/sha256/x"):
        (closure.root / name).write_bytes(b"")
    (closure.root / "tmp" / "gone").mkdir()
    Served().mend(closure)
    assert [one.name for one in closure.verify().findings] == ["notes.txt"]


# Many and odd


def test_a_tree_with_every_odd_name_is_compared_path_by_path(tmp_path: Path) -> None:
    from derive.trees.pack import add_members
    from support.folders import ODD, members_of

    with LocalStore(tmp_path) as store:
        digest = store.add_listing(add_members(store, members_of(ODD)))
        folder = store.folder(digest)
        assert verify(store, JOBS).is_sound
        (folder / os.fsdecode(b"caf\xe9")).chmod(0o644)
        assert "caf%E9: " in next(one.what for one in verify(store, JOBS).findings if one.is_damage)
