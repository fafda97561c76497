# SPDX-License-Identifier: Apache-2.0
"""A store that is not there, is somebody else's, is full, cannot be written, or has lost a part: what is said then."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.store.local import LocalStore
from support.require import skip_or_fail
from support.small import Small, small_project


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as project:
        yield project


READING = (
    (("store", "du"), 0),
    (("store", "du", "--packages"), 0),
    (("store", "gc"), 0),
    (("store", "gc", "--dry-run"), 0),
    (("store", "verify"), 3),
    (("store", "optimise"), 3),
    (("store", "path", "hello"), 3),
    (("show",), 0),
    (("show", "hello"), 0),
    (("plan",), 0),
    (("build", "hello", "--dry-run"), 0),
    (("plan", "--past"), 0),
)


@pytest.mark.parametrize(
    ("arguments", "code"), READING, ids=lambda one: " ".join(one) if isinstance(one, tuple) else ""
)
def test_what_only_reads_makes_no_store(small: Small, arguments: tuple[str, ...], code: int) -> None:
    ran = small.here(*arguments)
    assert ran.code == code, ran.err
    assert not small.store.exists()
    assert "fault of derive" not in ran.err


@pytest.mark.parametrize("arguments", [("why", "hello"), ("log", "hello"), ("diff", "hello", ".")])
def test_what_asks_of_the_past_makes_no_store(small: Small, arguments: tuple[str, ...]) -> None:
    ran = small.here(*arguments)
    assert ran.code != 130
    assert not small.store.exists()
    assert "fault of derive" not in ran.err


def test_a_store_that_is_not_there_is_said_to_be_so(small: Small) -> None:
    ran = small.here("store", "du")
    assert (ran.out, ran.err) == ("no images\n\n0 B in all\n", f"there is no store yet at {small.store}\n")
    ran = small.here("store", "gc")
    assert ran.err == f"there is no store yet at {small.store}\n"
    ran = small.here("store", "verify")
    assert ran.err.startswith(f"error: {small.store}: there is no store here yet\n  hint: ")


def test_a_plan_against_no_store_is_that_against_an_empty_one(small: Small) -> None:
    first = json.loads(small.here("plan", "--json").out)["body"]
    with LocalStore(small.store):
        pass
    second = json.loads(small.here("plan", "--json").out)["body"]
    assert first.pop("disk_free_bytes") > 0
    assert second.pop("disk_free_bytes") > 0
    assert first == second


@pytest.mark.parametrize(
    "arguments",
    [("store", "du"), ("store", "verify", "--repair"), ("store", "gc"), ("store", "optimise"), ("plan",), ("image",)],
    ids=" ".join,
)
def test_a_folder_of_somebody_else_is_never_touched(small: Small, arguments: tuple[str, ...]) -> None:
    for path in ("tmp/work/file", "trees/oak/leaf", "index.json", "notes.txt"):
        (small.store / path).parent.mkdir(parents=True, exist_ok=True)
        (small.store / path).write_text("mine")
    before = sorted(str(path) for path in small.store.rglob("*"))
    ran = small.here(*arguments)
    assert (ran.code, ran.out) == (3, "")
    assert f"{small.store}: this folder is not empty, and no store of derive" in ran.err
    assert sorted(str(path) for path in small.store.rglob("*")) == before


# Full


PRELUDE = """
import json, sys
from pathlib import Path
from support.small import run_here
store = Path(sys.argv[1])
def run(*arguments):
    ran = run_here(*arguments)
    return [ran.code, ran.out, ran.err]
def fill():
    (store / "damaged").mkdir()
    with (store / "damaged" / "ballast").open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
"""


def beneath(small: Small, mount: str, script: str) -> list[tuple[int, str, str]]:
    """Run commands where a file system is mounted for them alone: exit code, output and messages of each."""
    private = ["unshare", "--mount", "--map-root-user", "sh", "-c", f'{mount} {small.store} && exec "$@"', "sh"]
    small.store.mkdir(exist_ok=True)
    if subprocess.run([*private, "true"], capture_output=True, check=False).returncode:
        skip_or_fail("no file system can be mounted in a namespace of one's own here")
    environment = {**os.environ, **small.environment, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*private, sys.executable, "-c", f"{PRELUDE}\n{script}\nprint(json.dumps(runs))", str(small.store)]
    ran = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=small.root, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return [(code, out, err) for code, out, err in json.loads(ran.stdout)]


SMALL_DISK = "mount -t tmpfs -o size=24m none"


@pytest.mark.parametrize("spoil", ["pass", "(store / 'reserve').unlink()"], ids=["now", "of an earlier version"])
def test_on_a_full_disk_what_reads_answers_and_gc_makes_room(small: Small, spoil: str) -> None:
    script = f"""
runs = [run("build", "hello")]
{spoil}
fill()
runs += [run("store", "du"), run("store", "verify", "--fast"), run("plan"), run("image")]
runs += [run("store", "gc"), run("store", "verify"), run("image")]
assert (store / "reserve").stat().st_size == 1 << 20
"""
    built, du, verify, plan, image, collected, again, last = beneath(small, SMALL_DISK, script)
    assert [one[0] for one in (built, du, verify, plan, collected, again, last)] == [0] * 7
    assert image[0] == 3
    assert image[2].count(f"no space left in the store {small.store}") == 1
    assert "hint: derive store gc removes what nothing needs" in image[2]
    assert "damaged files" in collected[1]


def test_on_a_full_disk_a_root_can_be_forgotten(small: Small) -> None:
    script = """
runs = [run("image")]
fill()
runs += [run("store", "gc", "--forget", "small"), run("store", "du")]
"""
    built, collected, du = beneath(small, SMALL_DISK, script)
    assert (built[0], collected[0], du[0]) == (0, 0, 0)
    assert du[1].startswith("no images")


# Roots that differ in kind alone


def test_an_image_with_overlays_has_a_name_of_its_own(small: Small, tmp_path: Path) -> None:
    assert small.here("image").code == 0
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("new")
    assert small.here("dev", "small", "--overlay", str(tree)).code == 0
    shown = small.here("store", "du").out
    assert "\nsmall@linux/amd64 " in shown
    assert "\ndev small@linux/amd64 " in shown
    ran = small.here("store", "gc", "--forget", "nothing", "--dry-run")
    assert "there are: dev small@linux/amd64, small@linux/amd64" in ran.err
    ran = small.here("store", "gc", "--forget", "dev small@linux/amd64")
    assert ran.code == 0, ran.err
    names = [
        (one["kind"], one["name"]) for one in json.loads(small.here("store", "du", "--json").out)["body"]["images"]
    ]
    assert names == [("image", "small@linux/amd64")]
    index = json.loads((small.store / "index.json").read_bytes())["manifests"]
    assert [one["annotations"]["org.opencontainers.image.ref.name"] for one in index] == ["small-amd64"]


def test_forgetting_an_image_leaves_the_one_with_overlays(small: Small, tmp_path: Path) -> None:
    assert small.here("image").code == 0
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("new")
    assert small.here("dev", "small", "--overlay", str(tree)).code == 0
    assert small.here("store", "gc", "--forget", "small@linux/amd64").code == 0
    roots = json.loads(small.here("store", "du", "--json").out)["body"]["images"]
    assert [(one["kind"], one["name"]) for one in roots] == [("dev", "small@linux/amd64")]


# Kept of failed builds


def test_what_is_kept_of_a_failed_build_is_counted_and_goes_after_a_week(small: Small) -> None:
    small.edit("derivations/small/build.sh", 'echo "hello is built"', "echo text > left; exit 1")
    assert small.here("build", "hello", "--keep-failed").code == 3
    (kept,) = (small.store / "failed").iterdir()
    found = small.here("store", "verify")
    assert (found.code, "stray" in found.out) == (0, False), found.out
    assert "kept of failed builds  1" in small.here("store", "du").out
    assert "kept of failed builds" not in small.here("store", "gc").out
    assert kept.exists()
    week_ago = time.time() - 8 * 24 * 3600
    os.utime(kept, (week_ago, week_ago))
    assert "kept of failed builds  1" in small.here("store", "gc", "--dry-run").out
    assert kept.exists()
    assert "kept of failed builds  1" in small.here("store", "gc").out
    assert not kept.exists()
    assert list((small.store / "tmp").iterdir()) == []


# Repairs that cannot bring back


def damage(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"damaged")


def test_a_lost_pack_is_forgotten_and_the_next_build_makes_it_again(small: Small) -> None:
    first = small.here("image")
    assert first.code == 0
    with LocalStore(small.store) as store:
        ((_, _, resolved, _),) = store.database.find_derivations("hello")
        row = store.database.realisation(resolved)
        assert row is not None
        tree = row.outputs["out"].rpartition(":")[2]
        with store.database.cursor() as cursor:
            ((pack,),) = cursor.execute("SELECT blob FROM tree_blobs WHERE tree = ?", (tree,)).fetchall()
    damage(small.store / "blobs" / "sha256" / pack)
    for folder in (small.store / "trees").iterdir():
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)
        shutil.rmtree(folder)
    ran = small.here("store", "verify", "--repair")
    assert ran.code == 0, ran.err
    assert "2 trees in it forgotten: the next build that needs them makes them again" in ran.err
    assert "no archive" not in ran.err
    assert small.here("store", "verify").code == 0
    assert "hello" in small.here("plan", "hello").out
    again = small.here("build", "hello", "--json")
    assert (again.code, json.loads(again.out)["body"]["outputs"]["out"].rpartition(":")[2]) == (0, tree), again.err
    assert small.here("image").out == first.out


def test_a_lost_layer_is_said_to_be_missing_and_is_no_success(small: Small) -> None:
    first = small.here("image")
    manifest = json.loads((small.store / "blobs" / "sha256" / first.out.strip().rpartition(":")[2]).read_bytes())
    damage(small.store / "blobs" / "sha256" / manifest["layers"][-1]["digest"].rpartition(":")[2])
    ran = small.here("store", "verify", "--repair", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["body"]["sound_afterwards"] is False
    assert "still wrong: root small@linux/amd64: " in ran.err
    assert "derive it again" in ran.err
    assert small.here("image").out == first.out
    ran = small.here("store", "verify")
    assert ran.code == 0, ran.out


# Read-only


READ_ONLY = 'f() { mount --bind -o ro "$1" "$1"; }; f'
AFTER = """
[after]
builder = "script"
root = "tools"
inputs = { source = "hello" }
script = "after.sh"
timeout = 60
"""


def test_an_output_that_is_there_is_answered_from_a_store_that_cannot_be_written(small: Small) -> None:
    small.write("derivations/after.toml", AFTER)
    small.write("derivations/after/after.sh", 'cp -r /in/source/. "$DERIVE_OUT/"\n')
    first, known = small.here("build", "hello", "--path"), small.here("build", "after")
    assert (first.code, known.code) == (0, 0), known.err
    # Another script with the same output: what comes after it is not run, and not noted where nothing can be.
    small.edit("derivations/small/build.sh", 'echo "hello is built"', 'echo "hello is built anew"')
    digest = small.here("build", "hello").out
    script = """
runs = [run("build", "hello"), run("build", "hello", "--path"), run("build", "after")]
"""
    found = beneath(small, READ_ONLY, script)
    assert [one[:2] for one in found] == [(0, digest), (0, first.out), (0, known.out)]


def test_a_tree_that_is_not_unpacked_has_no_path_where_nothing_can_be_written(small: Small) -> None:
    digest = small.here("build", "hello").out
    tree = small.store / "trees" / digest.strip().rpartition(":")[2]
    subprocess.run(["chmod", "-R", "u+w", tree], check=True)
    shutil.rmtree(tree)
    script = """
runs = [run("build", "hello"), run("build", "hello", "--json"), run("build", "hello", "--path"), run("image")]
"""
    plain, record, path, image = beneath(small, READ_ONLY, script)
    assert plain[:2] == (0, digest)
    assert json.loads(record[1])["body"]["path"] is None
    assert path[0] == 3
    assert "is not unpacked, and the store cannot be written" in path[2]
    assert image[0] == 3
    assert "the store cannot be written" in image[2]
