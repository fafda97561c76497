# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.derivations.model import FlatOutput
from derive.errors import InputErrors
from derive.store import collect as collecting
from derive.store.collect import Collection, collect
from derive.store.local import LocalStore
from derive.store.reach import Ability, Level
from support.stored import Made, add_blob, fetched, image, realise, tree

YES, LOST, NO = Ability.YES, Ability.LOST, Ability.NO


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def reopened(store: LocalStore) -> LocalStore:
    """Return the store as another process sees it that just came."""
    store.__exit__(None, None, None)
    return store.__enter__()


def present(store: LocalStore, *made: Made) -> list[bool]:
    from derive.build.execute import is_present

    return [is_present(store, one.output) for one in made]


def abilities(done: Collection, name: str = "a@linux/amd64") -> tuple[Ability, ...]:
    (effect,) = (one for one in done.roots if one.root.operand == name)
    return (effect.run, effect.rebuild, effect.audit)


class Closure:
    """An image from one archive, by way of an unpacked tree and a built one."""

    def __init__(self, store: LocalStore, name: str = "a") -> None:
        self.deb = fetched(store, f"deb {name}".encode())
        self.tools = fetched(store, b"tools")
        self.root = tree(store, b"root", self.tools, builder="debian-root")
        self.unpacked = tree(store, f"unpacked {name}".encode(), self.deb)
        self.built = tree(store, f"built {name}".encode(), self.unpacked, builder="script", root=self.root)
        self.image = image(store, name, self.built)


@pytest.mark.parametrize(
    ("level", "stays", "can"),
    [
        (Level.RUN, [False, False, False, False, False, True], (YES, LOST, LOST)),
        (Level.REBUILD, [True, True, True, False, False, True], (YES, YES, LOST)),
        (Level.AUDIT, [True, True, True, True, True, True], (YES, YES, YES)),
    ],
)
def test_each_level_keeps_its_part_of_a_closure(
    store: LocalStore, level: Level, stays: list[bool], can: tuple[Ability, ...]
) -> None:
    one = Closure(store)
    parts = (one.deb, one.tools, one.root, one.unpacked, one.built, one.image)
    store = reopened(store)
    planned = collect(store, level, dry_run=True)
    assert present(store, *parts) == [True] * 6
    done = collect(store, level)
    assert (done.freed, done.roots) == (planned.freed, planned.roots)
    assert present(store, *parts) == stays
    assert abilities(done) == can
    assert store.log_path(f"{one.built.derivation.id.hex}.log").exists() == (level is not Level.RUN)
    again = collect(store, level)
    assert again.freed == ()
    assert abilities(again) == tuple(NO if ability is LOST else ability for ability in can)


def test_what_no_root_needs_goes_with_its_rows_and_its_folder(store: LocalStore) -> None:
    Closure(store)
    stray = tree(store, b"stray", fetched(store, b"stray archive"))
    folder = store.folder(stray.digest)
    store.database.set_memo(sha256(b"memo"), stray.digest.hex)
    store = reopened(store)
    done = collect(store, Level.AUDIT)
    assert not folder.exists()
    assert not store.has_tree(stray.digest)
    assert store.database.tree_blobs(stray.digest) == []
    assert store.database.memo(sha256(b"memo")) is None
    assert {one.kind: one.count for one in done.freed} == {
        "contents of trees": 1,
        "fetched artifacts": 1,
        "listings": 1,
        "logs": 4,  # and those of the fetches, which say nothing
        "unpacked trees": 1,
    }
    assert list((store.root / "tmp").glob("*/*")) == []


def test_what_was_built_is_remembered_although_its_bytes_are_gone(store: LocalStore) -> None:
    stray = tree(store, b"stray")
    store = reopened(store)
    collect(store, Level.RUN)
    ((_, key, resolved, _),) = store.database.find_derivations(stray.derivation.name)
    assert key == stray.derivation.id
    assert store.database.realisation(resolved) is not None


def test_blobs_that_a_kept_tree_shares_with_a_dead_one_stay(store: LocalStore) -> None:
    one = Closure(store)
    shared = tree(store, b"built a", builder="compose")  # the same contents, as another step's output
    store = reopened(store)
    collect(store, Level.AUDIT)
    assert present(store, one.built, shared) == [True, True]


def test_a_name_in_the_index_is_a_root_when_the_table_was_lost(store: LocalStore) -> None:
    one = Closure(store)
    with store.database.cursor() as cursor:
        cursor.execute("DELETE FROM roots")
    store = reopened(store)
    done = collect(store, Level.REBUILD)
    assert abilities(done, "a-amd64") == (YES, YES, LOST)
    assert present(store, one.image, one.deb) == [True, True]


def test_an_image_that_was_derived_anew_under_its_name_lets_the_old_one_go(store: LocalStore) -> None:
    old, new = Closure(store, "a"), Closure(store, "b")
    store.database.set_root("image", "a linux/amd64", new.image.digest)
    store.tag("a-amd64", new.image.digest, 1, "application/vnd.oci.image.manifest.v1+json")
    store = reopened(store)
    collect(store, Level.REBUILD)
    assert present(store, old.image, old.deb, old.tools, new.deb) == [False, False, True, True]


@pytest.mark.parametrize("name", ["a", "a@linux/amd64", "a-amd64"])
def test_a_root_that_is_forgotten_goes_with_its_name(store: LocalStore, name: str) -> None:
    one, other = Closure(store, "a"), Closure(store, "b")
    store = reopened(store)
    done = collect(store, Level.REBUILD, dry_run=True, forget=[name])
    assert abilities(done) == (LOST, LOST, LOST)
    assert present(store, one.image) == [True]
    collect(store, Level.REBUILD, forget=[name])
    assert present(store, one.image, one.deb, other.image, other.deb) == [False, False, True, True]
    assert [root for _, root, _ in store.database.roots()] == ["b linux/amd64"]
    assert len(json.loads((store.root / "index.json").read_bytes())["manifests"]) == 1


def test_forgetting_a_name_that_no_root_has_changes_nothing(store: LocalStore) -> None:
    one = Closure(store)
    store = reopened(store)
    with pytest.raises(InputErrors) as caught:
        collect(store, Level.RUN, forget=["a", "c"])
    (problem,) = caught.value.problems()
    assert (problem.message, problem.hint) == ("no root is named 'c'", "there are: a@linux/amd64")
    assert present(store, one.image, one.deb) == [True, True]


def test_a_closure_with_a_step_that_the_store_never_heard_of_cannot_be_rebuilt(store: LocalStore) -> None:
    one = Closure(store)
    with store.database.cursor() as cursor:
        cursor.execute("DELETE FROM derivations WHERE id = ?", (one.unpacked.derivation.id.hex,))
    done = collect(reopened(store), Level.AUDIT, dry_run=True)
    assert abilities(done) == (YES, NO, NO)
    assert done.roots[0].gaps == 1


def test_an_image_that_lost_a_layer_can_not_be_run_before_and_after(store: LocalStore) -> None:
    one = Closure(store)
    (layer,) = json.loads(store.blob_path(one.image.digest).read_bytes())["layers"]
    store.blob_path(Digest.parse(layer["digest"])).unlink()
    assert abilities(collect(reopened(store), Level.AUDIT, dry_run=True)) == (NO, YES, NO)


def test_what_came_with_an_artifact_stays_with_it(store: LocalStore) -> None:
    proof = FlatOutput(add_blob(store, b"proof"))
    plain = tree(store, b"checkout")
    source = realise(store, "fetch-git", {}, plain.output, {"proof": proof}, arguments={"nar": plain.digest.hex})
    built = realise(store, "script", {"source": source}, FlatOutput(add_blob(store, b"built")))
    image(store, "a", built)
    store = reopened(store)
    done = collect(store, Level.REBUILD)
    assert abilities(done) == (YES, YES, LOST)
    assert present(store, source) == [True]
    assert store.has_blob(proof.digest)
    store.blob_path(proof.digest).unlink()
    assert abilities(collect(store, Level.REBUILD)) == (YES, NO, NO)


# Living processes


def test_what_another_process_holds_stays(store: LocalStore) -> None:
    closure = [tree(store, b"one"), tree(store, b"two"), fetched(store, b"three")]
    asked, bare = tree(store, b"asked"), add_blob(store, b"bare")
    store = reopened(store)
    with LocalStore(store.root) as other:
        other.protect(made.derivation.id for made in closure)
        assert other.has_tree(asked.digest)
        assert other.has_blob(bare)
        new = add_blob(other, b"written meanwhile")
        done = collect(store, Level.RUN)
        assert done.living == 1
        assert present(store, *closure, asked) == [True] * 4
        assert store.has_blob(bare)
        assert store.has_blob(new)
    assert collect(store, Level.RUN).living == 0
    assert present(store, *closure, asked) == [False] * 4
    assert not store.has_blob(new)


def test_a_live_build_keeps_the_artifacts_that_its_derivations_name(store: LocalStore) -> None:
    deb = fetched(store, b"deb")
    step = tree(store, b"step", deb)
    store = reopened(store)
    with LocalStore(store.root) as other:
        other.protect([step.derivation.id])
        collect(store, Level.RUN)
        assert present(store, deb, step) == [True, True]


def test_the_log_of_what_is_being_built_stays(store: LocalStore) -> None:
    step = tree(store, b"step")
    store = reopened(store)
    with LocalStore(store.root) as other:
        other.protect([step.derivation.id])
        collect(store, Level.RUN)
        assert store.log_path(f"{step.derivation.id.hex}.log").exists()


# Odds and ends


@pytest.mark.parametrize(("age_s", "stays"), [(8 * 86400, False), (6 * 86400, True)])
def test_an_unfinished_download_goes_when_nobody_went_on_with_it_for_a_week(
    store: LocalStore, age_s: int, stays: bool
) -> None:
    path = store.root / "partial" / sha256(b"half").hex
    path.parent.mkdir()
    path.write_bytes(b"ha")
    os.utime(path, (time.time() - age_s,) * 2)
    collect(store, Level.AUDIT)
    assert path.exists() == stays


def test_a_kill_between_any_two_moves_leaves_a_sound_store_and_the_next_collection_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = collecting._move
    total = 0
    for fatal in range(40):
        root = tmp_path / str(fatal)
        with LocalStore(root) as store:
            kept = Closure(store)
            tree(store, b"stray", fetched(store, b"stray archive"))
            store.folder(tree(store, b"second").digest)
        moves = 0

        def move(path: str, target: str, fatal: int = fatal) -> None:
            nonlocal moves
            moves += 1
            if moves == fatal + 1:
                raise KeyboardInterrupt
            real(path, target)

        monkeypatch.setattr(collecting, "_move", move)
        with LocalStore(root) as store:
            try:
                collect(store, Level.REBUILD)
            except KeyboardInterrupt:
                total += 1
        monkeypatch.setattr(collecting, "_move", real)
        with LocalStore(root) as store:
            for path in (root / "listings").iterdir():
                assert store.has_tree(Digest(path.stem)), "a listing without its blobs"
            collect(store, Level.REBUILD)
            assert present(store, kept.image, kept.deb, kept.root, kept.built) == [True, True, True, False]
            assert collect(store, Level.REBUILD).freed == ()
        if moves <= fatal:
            break
    assert total > 5


def test_an_ordinary_user_collects_and_optimises_unpacked_trees() -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from derive.store.local import LocalStore\n"
        "from derive.store.collect import collect\n"
        "from derive.store.optimise import optimise\n"
        "from derive.store.reach import Level\n"
        "from support.stored import tree\n"
        "os.umask(0o077)\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "root = Path(sys.argv[1])\n"
        "for _ in range(2):\n"
        "    with LocalStore(root) as store: store.folder(tree(store, b'text' * 100).digest)\n"
        "    with LocalStore(root) as store: print(optimise(store, jobs=1, folders=True).folder_bytes)\n"
        "    with LocalStore(root) as store: store.folder(tree(store, b'text' * 100).digest)\n"
        "    with LocalStore(root) as store: print([one.kind for one in collect(store, Level.RUN).freed])\n"
        "    print([list((root / name).iterdir()) for name in ('trees', 'listings', 'blobs/sha256', 'tmp')])\n"
    )
    paths = os.pathsep.join(str(Path(__file__).parents[up] / name) for up, name in ((3, "src"), (2, "")))
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o777)
        command = [sys.executable, "-c", script, f"{home}/store"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd="/", env={**os.environ, "PYTHONPATH": paths}
        )
    assert done.stderr == ""
    kinds = "['blobs that nothing names', 'contents of trees', 'listings', 'logs', 'unpacked trees']"
    assert done.stdout.splitlines() == ["(400, 0)", kinds, "[[], [], [], []]"] * 2
