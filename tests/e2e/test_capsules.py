# SPDX-License-Identifier: Apache-2.0
"""Capsules as a person meets them: packed, lost all else, derived from, and said to be damaged where they are."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.capsule.read import open_capsule
from support.capsules import contents_of, files_in, pack
from support.releasing import released_project
from support.require import skip_or_fail
from support.servers import Reply
from support.small import Small, artifacts, locator, run_here, small_project

NOTES = "notes_1.0-1_amd64.deb"
NOWHERE = {"DERIVE_MIRROR_DEBIAN": "http://127.0.0.1:9/debian"}


@dataclass(slots=True)
class Packed:
    """A project with a release, and its capsule as a folder and as a file."""

    small: Small
    image: str
    folder: Path
    file: Path

    def copy(self, to: Path, place: str) -> Path:
        """Copy the capsule to where a test may damage it."""
        if place == "folder":
            return Path(shutil.copytree(self.folder, to / "kept"))
        return Path(shutil.copy(self.file, to / "kept.tar"))


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Packed]:
    place = tmp_path_factory.mktemp("packed")
    with released_project(place) as small:
        assert small.here("release", "r-1", "--recipe", "serve").code == 0
        for name in ("kept", "kept.tar"):
            made = small.here("capsule", "create", "r-1", "--output", str(place / name), "--without-engine")
            assert made.code == 0, made.err
            assert "to write: " in made.err
        image = small.here("image").answer
        yield Packed(small=small, image=image, folder=place / "kept", file=place / "kept.tar")


def verify(*arguments: str) -> tuple[int, str]:
    ran = run_here("capsule", "verify", *arguments)
    return ran.code, ran.err


@pytest.mark.sandbox
@pytest.mark.parametrize("place", ["folder", "file"])
def test_with_store_network_and_mirror_gone_a_capsule_derives_the_same_digest(
    packed: Packed, tmp_path: Path, place: str
) -> None:
    archive = {**NOWHERE, "DERIVE_ARCHIVES": str(getattr(packed, place))}
    for platform in ("linux/amd64", "linux/arm64"):
        expected = packed.small.here("image", "--platform", platform).answer
        arguments = ("image", "--offline", "--platform", platform, "--store", str(tmp_path / "store"))
        assert packed.small.here(*arguments, env=archive).answer == expected


@pytest.mark.sandbox
def test_a_store_that_came_out_of_a_capsule_packs_the_same_bytes(packed: Packed, tmp_path: Path) -> None:
    env = {**NOWHERE, "DERIVE_ARCHIVES": str(packed.folder), "DERIVE_STORE": str(tmp_path / "store")}
    again = ("capsule", "create", "r-1", "--without-engine", "--offline", "--output")
    assert packed.small.here(*again, str(tmp_path / "again.tar"), env=env).code == 0
    assert (tmp_path / "again.tar").read_bytes() == packed.file.read_bytes()


def test_a_whole_capsule_is_said_to_be_whole_and_of_which_release(packed: Packed) -> None:
    for place in (packed.folder, packed.file):
        ran = run_here("capsule", "verify", str(place), "--json")
        body = json.loads(ran.answer)["body"]
        assert [one["name"] for one in body["releases"]] == ["r-1"]
        assert (body["problems"], body["unnamed_blobs"]) == ([], 0)


def test_where_everything_of_a_release_is_is_counted_and_the_score_is_kept(packed: Packed, tmp_path: Path) -> None:
    env = {**NOWHERE, "DERIVE_STORE": str(tmp_path / "none")}
    asked = ("capsule", "verify", "r-1", "--without-engine", "--offline", "--record")
    lost = packed.small.here(*asked, env=env)
    assert lost.code == 1
    assert f"nowhere: fetch-deb {NOTES}  {sha256(artifacts()[NOTES])}" in lost.err
    found = packed.small.here(*asked, "--capsule", str(packed.file), "--deep", "--json", env=env)
    assert found.code == 0, found.err
    body = json.loads(found.answer)["body"]
    assert (body["score_bp"], body["nowhere"]) == (10_000, [])
    held = {row["kind"]: row["held"] for row in body["kinds"]}
    assert held["fetch-deb"] == {"store": 0, "project": 0, "archive": 0, "capsule": 3, "mirror": 0}
    assert held["documents"]["project"] == held["documents"]["capsule"]
    records = sorted((packed.small.root / "records/derivability").iterdir())
    scores = [json.loads(path.read_bytes())["body"]["score_bp"] for path in records]
    assert scores[0] < scores[1] == 10_000


def test_sizes_are_the_same_whoever_holds_what_is_counted(packed: Packed, tmp_path: Path) -> None:
    asked = ("capsule", "verify", "r-1", "--offline", "--json")
    env = {**NOWHERE, "DERIVE_STORE": str(tmp_path / "none")}
    ran = [
        packed.small.here(*asked, env=NOWHERE),
        packed.small.here(*asked, env=env),
        packed.small.here(*asked, "--capsule", str(packed.file), env=env),
    ]
    sizes = [{row["kind"]: row["size_bytes"] for row in json.loads(one.out)["body"]["kinds"]} for one in ran]
    assert sizes[0] == sizes[1] == sizes[2]
    assert 0 not in sizes[0].values()


def test_as_many_blobs_are_announced_as_written_and_found(packed: Packed, tmp_path: Path) -> None:
    ran = packed.small.here("capsule", "create", "r-1", "--without-engine", "--output", str(tmp_path / "new"))
    blobs = len(list((tmp_path / "new/blobs/sha256").iterdir()))
    assert f"to write: {blobs} blobs" in ran.err
    assert f"r-1: {blobs} blobs" in ran.err
    assert f"{blobs} blobs hashed" in run_here("capsule", "verify", str(tmp_path / "new")).err


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz", "x.tar.ZST", "x.TAR"])
def test_what_looks_like_an_archive_that_no_capsule_is_is_refused(packed: Packed, tmp_path: Path, name: str) -> None:
    ran = packed.small.here("capsule", "create", "r-1", "--output", str(tmp_path / name))
    assert (ran.code, "hint: name a folder, or one file: x.tar" in ran.err) == (2, True)
    assert not list(tmp_path.iterdir())


def test_mirrors_are_asked_without_fetching_and_one_that_is_dead_is_said_once(packed: Packed, tmp_path: Path) -> None:
    env = {"DERIVE_STORE": str(tmp_path / "none")}
    asked = ("capsule", "verify", "r-1", "--without-engine", "--json")
    packed.small.server.requests.clear()
    body = json.loads(packed.small.here(*asked, env=env).answer)["body"]
    assert (body["score_bp"], body["total"]["held"]["mirror"]) == (10_000, 4)
    assert {request.method for request in packed.small.server.requests} == {"HEAD"}
    dead = packed.small.here(*asked, env={**env, **NOWHERE})
    assert dead.code == 1
    assert dead.err.count("127.0.0.1:9") == 1
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("place", ["folder", "file"])
def test_an_altered_byte_is_found_and_said_of_which_artifact(packed: Packed, tmp_path: Path, place: str) -> None:
    kept = packed.copy(tmp_path, place)
    found = open_capsule(kept).layout.slice(sha256(artifacts()[NOTES]))
    assert found is not None
    with Path(found[0]).open("r+b") as file:
        file.seek(found[1].offset + 100)
        file.write(b"\xff\x00\xff")
    code, err = verify(str(kept))
    assert code == 1
    assert f"a blob is not what its name says: fetch-deb {NOTES}" in err
    env = {**NOWHERE, "DERIVE_ARCHIVES": str(kept)}
    derived = packed.small.here("image", "--offline", "--store", str(tmp_path / "store"), env=env)
    assert derived.code == 3
    assert "not what the lock names" in derived.err or "served other bytes" in derived.err
    deep = ("capsule", "verify", "r-1", "--without-engine", "--offline", "--deep", "--store", str(tmp_path / "none"))
    counted = packed.small.here(*deep, "--capsule", str(kept))
    assert counted.code == 1
    assert "does not count" in counted.err


def test_a_tar_that_is_cut_short_is_said_to_be_by_every_command(packed: Packed, tmp_path: Path) -> None:
    kept = packed.copy(tmp_path, "file")
    with kept.open("r+b") as file:
        file.truncate(kept.stat().st_size // 2)
    ran = run_here("capsule", "verify", str(kept))
    assert ran.code == 1
    assert "the tar is cut short" in ran.err
    env = {**NOWHERE, "DERIVE_ARCHIVES": str(kept)}
    derived = packed.small.here("image", "--offline", "--store", str(tmp_path / "store"), env=env)
    assert derived.code == 3
    assert "offline, and 3 artifacts are not in the store" in derived.err


def test_a_link_in_a_layout_is_refused_wherever_it_leads(packed: Packed, tmp_path: Path) -> None:
    kept = packed.copy(tmp_path, "folder")
    blob = kept / "blobs" / "sha256" / sha256(artifacts()[NOTES]).hex
    blob.rename(tmp_path / "elsewhere")
    blob.symlink_to(tmp_path / "elsewhere")
    code, err = verify(str(kept))
    assert code == 1
    assert f"{blob}: a link or device in a layout, where only files and folders are" in err


def test_blobs_that_a_manifest_names_and_are_absent_are_said_all_at_once(packed: Packed, tmp_path: Path) -> None:
    kept = packed.copy(tmp_path, "folder")
    for file in (NOTES, "busybox_1.0-1_amd64.deb"):
        (kept / "blobs" / "sha256" / sha256(artifacts()[file]).hex).unlink()
    (kept / "strange").touch()
    code, err = verify(str(kept))
    assert code == 1
    for file in (NOTES, "busybox_1.0-1_amd64.deb"):
        assert f"kept: r-1: a blob is absent: fetch-deb {file}" in err
    assert f"{kept}/strange: belongs to no layout" in err


def test_a_capsule_that_names_less_than_its_release_takes_is_not_whole(packed: Packed, tmp_path: Path) -> None:
    contents = contents_of(packed.small.root, "small", name="r-1")
    pack(packed.small.store, contents, tmp_path / "less.tar")
    code, err = verify(str(tmp_path / "less.tar"))
    assert code == 1
    assert "no record in it made the release r-1" in err


@pytest.mark.sandbox
def test_a_capsule_serves_one_command_or_all_that_follow(packed: Packed, tmp_path: Path) -> None:
    env = {**NOWHERE, "DERIVE_STORE": str(tmp_path / "store")}
    inner = (sys.executable, "-m", "derive", "image", "--offline", "--project", str(packed.small.root))
    ran = packed.small.derive("capsule", "use", str(packed.file), "--", *inner, env=env)
    assert ran.answer == packed.image
    used = packed.small.here("capsule", "use", str(packed.file))
    assert used.answer.splitlines()[1].split()[0] == "r-1"
    offline = ("image", "--offline", "--store", str(tmp_path / "other"))
    assert packed.small.here(*offline, env=NOWHERE).answer == packed.image
    assert packed.small.here("capsule", "use", str(packed.file), "--remove").code == 0
    gone = packed.small.here("image", "--offline", "--store", str(tmp_path / "third"), env=NOWHERE)
    assert gone.code == 3


@pytest.mark.sandbox
def test_r4_a_deb_that_is_gone_comes_from_a_capsule_that_is_a_file(tmp_path: Path) -> None:
    with small_project(tmp_path) as small:
        expected = small.here("image").answer
        pack(small.store, contents_of(small.root, "small"), tmp_path / "kept.tar")
        small.serve(NOTES, Reply(status=404))
        other = ("image", "--store", str(tmp_path / "other"))
        gone = small.here(*other)
        assert gone.code == 3
        assert f"no mirror serves {locator(NOTES)}" in gone.err
        assert "derive lock --update notes" in gone.err
        ran = small.here(*other, env={"DERIVE_ARCHIVES": str(tmp_path / "kept.tar")})
        assert ran.answer == expected
        assert f"what no mirror serves comes from the archive {tmp_path / 'kept.tar'}" in ran.err


def test_r4_a_capsule_without_the_deb_is_named_among_what_was_tried(tmp_path: Path) -> None:
    with small_project(tmp_path) as small:
        small.here("image")
        contents = contents_of(small.root, "small")
        less = type(contents)(
            name="less",
            release=contents.release,
            platforms=contents.platforms,
            engine=(),
            inputs=tuple(one for one in contents.inputs if one.use.name != NOTES),
        )
        pack(small.store, less, tmp_path / "less.tar")
        small.serve(NOTES, Reply(status=404))
        ran = small.here("image", "--store", str(tmp_path / "o"), env={"DERIVE_ARCHIVES": str(tmp_path / "less.tar")})
        assert ran.code == 3
        assert f"{tmp_path / 'less.tar'}: has no such file" in ran.err
        assert "derive lock --update notes" in ran.err


def test_without_a_mirror_for_the_engine_the_next_step_is_one_that_helps(packed: Packed, tmp_path: Path) -> None:
    ran = packed.small.here("capsule", "create", "r-1", "--output", str(tmp_path / "kept.tar"))
    assert ran.code == 3
    assert "engine's   fetch-deb bubblewrap" in ran.err
    assert "derive lock" not in ran.err
    hint = "name a capsule or an archive that has them in DERIVE_ARCHIVES"
    assert f"hint: {hint}; what is the engine's own may be left out: --without-engine" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_capsule_folder_is_an_oci_layout_of_one_manifest_a_release(packed: Packed) -> None:
    names = files_in(packed.folder)
    index = json.loads(names["index.json"])
    (entry,) = index["manifests"]
    assert entry["annotations"] == {"org.opencontainers.image.ref.name": "r-1"}
    manifest = json.loads(names[f"blobs/sha256/{Digest.parse(entry['digest']).hex}"])
    assert manifest["artifactType"] == manifest["config"]["mediaType"] == "application/vnd.derive.capsule.v1+json"
    assert len(manifest["layers"]) + 2 == len([name for name in names if name.startswith("blobs/")])


def test_a_tool_that_knows_nothing_of_capsules_copies_one_whole(packed: Packed, tmp_path: Path) -> None:
    if shutil.which("skopeo") is None:
        skip_or_fail("skopeo is not installed (Debian package skopeo)")
    for source in (f"oci:{packed.folder}:r-1", f"oci-archive:{packed.file}:r-1"):
        target = tmp_path / source.partition(":")[0]
        subprocess.run(["skopeo", "copy", "--quiet", source, f"oci:{target}:r-1"], check=True, capture_output=True)
        copied, kept = (files_in(folder / "blobs") for folder in (target, packed.folder))
        assert copied == kept
